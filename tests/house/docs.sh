#!/bin/sh
# Every page below docs/ stands in docs/README.md, on one line that says what it is; every link between
# pages leads to a file, and to a heading of it. Usage: docs.sh SOURCE-FOLDER
set -eu
bad=0
say() { echo "$*"; bad=1; }

# Headings as anchors, one line "PAGE<tab>ANCHOR" each: lower case, without marks, blanks as hyphens.
anchors() { # pages
    awk 'FNR == 1 { on = 0 } /^```/ { on = !on } !on && /^#+ / {
        head = tolower($0); sub(/^#* /, "", head); gsub(/[^a-z0-9 _-]/, "", head); gsub(/ /, "-", head)
        print FILENAME "\t" head }' "$@"
}

# Every target of [text](target) outside of code blocks that is no address, one line "PAGE<tab>LINK<tab>FILE<tab>ANCHOR"
# each, with the path from the source folder of the file that it leads to.
links() { # pages
    awk '
        function path(page, file,    n, i, k, part, out) {
            if (file == "") return page
            sub(/[^\/]*$/, file, page)
            n = split(page, part, "/")
            for (i = 1; i <= n; i++) if (part[i] == "..") k--; else if (part[i] != ".") part[++k] = part[i]
            for (i = 1; i <= k; i++) out = out (i > 1 ? "/" : "") part[i]
            return out
        }
        FNR == 1 { on = 0 }
        /^```/ { on = !on }
        !on {
            for (line = $0; match(line, /\]\([^)]*\)/); line = substr(line, RSTART + RLENGTH)) {
                link = substr(line, RSTART + 2, RLENGTH - 3)
                if (link ~ /^(https?:\/\/|mailto:)/ || seen[FILENAME, link]++) continue
                at = index(link, "#")
                print FILENAME "\t" link "\t" path(FILENAME, at ? substr(link, 1, at - 1) : link) "\t" (at ? substr(link, at + 1) : "")
            }
        }' "$@"
}

check() { # source folder
    cd "$1"
    pages=$(find README.md docs -name '*.md' | sort)
    printf '%s\n' "$pages" | awk '
        NR == FNR { if (/^- \[[^]]*\]\([^)]*\): ./) { sub(/^- \[[^]]*\]\(/, ""); sub(/\).*/, ""); listed["docs/" $0] } next }
        /^docs\// && $0 != "docs/README.md" && !($0 in listed) { print "docs/README.md does not list " substr($0, 6) }
        ' docs/README.md - >"$own/unlisted"
    # shellcheck disable=SC2086
    links $pages >"$own/links"
    cut -f 3 "$own/links" | sort -u | while read -r file; do
        [ ! -e "$file" ] || echo "$file"
    done >"$own/there"
    # shellcheck disable=SC2046
    anchors $(grep '\.md$' "$own/there") >"$own/anchors"
    awk -F '\t' -v there="$own/there" -v anchors="$own/anchors" '
        BEGIN {
            while ((getline line <there) > 0) exists[line]
            while ((getline line <anchors) > 0) heading[line]
        }
        !($3 in exists) { print $1 ": " $2 " is not there"; next }
        $4 != "" && !(($3 "\t" $4) in heading) { print $1 ": no heading for " $2 }' "$own/links" >"$own/broken"
    cat "$own/unlisted" "$own/broken"
    [ ! -s "$own/unlisted" ] && [ ! -s "$own/broken" ] || bad=1
}

# The check itself: a page that is not listed, links to nowhere.
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
mkdir "$own/docs"
printf '[x](docs/a.md#one-two) [y](nowhere.md) [z](docs/a.md#three)\n' >"$own/README.md"
printf -- '- [a.md](a.md): it\n' >"$own/docs/README.md"
printf '# One, two\n' >"$own/docs/a.md"
printf '# B\n' >"$own/docs/b.md"
told=$(check "$own")
[ "$(printf '%s\n' "$told" | wc -l)" -eq 3 ] || say "the check tells of: $told"
cd - >/dev/null 2>&1 || true
check "$1"
exit $bad
