#!/bin/sh
# Every command in a code block marked `sh` of README.md and of all pages below docs/ runs, each page in a
# folder of its own. Lines that begin with "tools/", "cmake" or "sudo" build or install and are left to
# tools/check. A line ending in "# exit N" must end so; one that ends in "\" goes on in the next line.
#   <!-- file: NAME -->  the code block below is that file
#   <!-- output -->      the code block below is what the command before it printed; a line "..." stands for
#                        any number of lines
# Usage: cli_readme_commands.sh PROGRAM SOURCE_DIR [--update]: with --update outputs that differ (and have no
# "...") are written into the pages.
set -eu
ccllab=$(readlink -f "$1")
source=$2
update=${3:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin"
ln -s "$ccllab" "$dir/bin/ccllab"
PATH=$dir/bin:$PATH
export PATH
bad=0
ran=0
say() { echo "$*"; bad=1; }

# A page as parts/N.sh, N.file, N.out, and parts/index: what each of them is, in order.
parts() { # page
    rm -rf "$dir/parts"
    mkdir "$dir/parts"
    : >"$dir/parts/index"
    awk -v at="$dir/parts/" '
        function begin(kind, extra) { n++; file = at n "." kind; print kind, n, extra >(at "index"); printf "" >file }
        /^<!-- file: .* -->$/ { name = $0; sub(/^<!-- file: /, "", name); sub(/ -->$/, "", name); next }
        /^<!-- output -->$/ { output = 1; next }
        !on && /^```/ {
            on = 1; kind = ""
            if (name != "") begin("file", name)
            else if (output) begin("out", NR)
            else if ($0 == "```sh") kind = "sh"
            else kind = "none"
            if (kind == "") kind = "text"
            name = ""; output = 0; fresh = 1; next
        }
        on && /^```/ { if (kind == "text") close(file); on = 0; next }
        on && kind == "text" { print >file }
        on && kind == "sh" {
            if (fresh && $0 ~ /^(#.*|tools\/.*|cmake.*|sudo.*|git .*|cd .*|[ ]*)$/) next
            if (fresh) begin("sh", NR)
            print >file
            fresh = $0 !~ /\\$/
            if (fresh) close(file)
        }' "$1"
}

# Does the output match, with "..." for any number of lines?
matches() { # wanted, printed
    awk 'NR == FNR { want[++w] = $0; next } { got[++g] = $0 }
        function fits(i, j) {
            for (; i <= w; i++) {
                if (want[i] == "...") {
                    for (; j <= g + 1; j++) if (fits(i + 1, j)) return 1
                    return 0
                }
                if (j > g || want[i] != got[j]) return 0
                j++
            }
            return j == g + 1
        }
        END { exit !fits(1, 1) }' "$1" "$2"
}

# Put an output into a page, instead of the lines behind the fence at `line`.
replace() { # page, line, output
    awk -v line="$2" -v new="$3" '
        NR == line { print; while ((getline text <new) > 0) print text; off = 1; next }
        off && /^```/ { off = 0 }
        !off' "$1" >"$dir/page" && cat "$dir/page" >"$1"
}

page_of() { # page
    page=$1
    parts "$source/$page"
    mkdir -p "$dir/here"
    cd "$dir/here"
    changed=
    while read -r kind n rest <&3; do
        case $kind in
        file)
            mkdir -p "$(dirname "$rest")"
            cp "$dir/parts/$n.file" "$rest"
            ;;
        sh)
            line=$(cat "$dir/parts/$n.sh")
            want=$(printf '%s\n' "$line" | sed -n 's/.*# exit \([0-9]*\)$/\1/p')
            rc=0
            sh -c "$line" >"$dir/out" 2>"$dir/err" </dev/null || rc=$?
            ran=$((ran + 1))
            [ "$rc" -eq "${want:-0}" ] || say "$page:$rest: $line: exit code $rc, wanted ${want:-0}: $(cat "$dir/err")"
            ;;
        out)
            # A block that is empty shows nothing: its command failed before a pipe.
            [ -s "$dir/parts/$n.out" ] || say "$page:$rest: an output without a line: its command failed"
            matches "$dir/parts/$n.out" "$dir/out" && continue
            if [ "$update" ] && ! grep -qx '[.][.][.]' "$dir/parts/$n.out"; then
                cp "$dir/out" "$dir/parts/$n.new"
                changed="$rest:$n $changed" # last first, so that line numbers stay
            else
                say "$page:$rest: this is printed no more (write it anew with --update):"
                diff "$dir/parts/$n.out" "$dir/out" || true
            fi
            ;;
        esac
    done 3<"$dir/parts/index"
    cd "$dir"
    for one in $changed; do
        replace "$source/$page" "${one%:*}" "$dir/parts/${one#*:}.new"
        echo "$page:${one%:*}: written anew"
    done
    rm -rf "$dir/here"
}

# The check itself: what is wrong is told.
mkdir "$dir/self"
printf '<!-- file: a.txt -->\n```text\none\ntwo\nthree\n```\n```sh\ncat \\\n  a.txt\n```\n<!-- output -->\n```text\none\n...\nthree\n```\n' >"$dir/self/right.md"
sed 's/^three$/four/' "$dir/self/right.md" | sed '5s/four/three/' >"$dir/self/wrong.md"
printf '```sh\nfalse\n```\n' >"$dir/self/fails.md"
printf '```sh\nfalse | cat\n```\n<!-- output -->\n```text\n```\n' >"$dir/self/empty.md"
keep=$source source=$dir/self
page_of right.md
[ "$bad" -eq 0 ] || say "a right page is told"
for wrong in wrong.md fails.md empty.md; do
    bad=0
    page_of "$wrong" >/dev/null
    [ "$bad" -eq 1 ] && bad=0 || say "$wrong is not told"
done
source=$keep

ran=0
page_of README.md
# Jobs of docs/runtime.md want a launcher.
for page in $(cd "$source" && find docs -name '*.md' ! -name runtime.md | sort); do
    page_of "$page"
done
[ "$ran" -ge 50 ] || say "only $ran commands found: the test does not see them"
echo "$ran commands"
exit $bad
