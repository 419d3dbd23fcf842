#!/bin/sh
# Every page below docs/ stands in docs/README.md, on one line that says what it is; every link between
# pages leads to a file, and to a heading of it. Usage: docs.sh SOURCE-FOLDER
set -eu
bad=0
say() { echo "$*"; bad=1; }

# Headings as anchors: lower case, without marks, blanks as hyphens.
anchors() { # page
    awk '/^```/ { on = !on } !on && /^#+ /' "$1" | sed 's/^#* //' | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

links() { # page: every target of [text](target) outside of code blocks
    awk '/^```/ { on = !on } !on' "$1" | grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//' | sort -u
}

check() { # source folder
    cd "$1"
    pages=$(find README.md docs -name '*.md' | sort)
    for page in $pages; do
        case $page in docs/README.md | README.md) ;; docs/*)
            grep -qE -e "^- \[[^]]*\]\(${page#docs/}\): .+" docs/README.md || say "docs/README.md does not list ${page#docs/}"
            ;;
        esac
        for link in $(links "$page"); do
            case $link in http://* | https://* | mailto:*) continue ;; esac
            file=${link%%#*}
            target=$(dirname "$page")/$file
            [ "$file" ] || target=$page
            [ -e "$target" ] || { say "$page: $link is not there"; continue; }
            case $link in *'#'*)
                anchors "$target" | grep -qx -e "${link#*#}" || say "$page: no heading for $link"
                ;;
            esac
        done
    done
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
