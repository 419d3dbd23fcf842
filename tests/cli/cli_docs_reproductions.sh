#!/bin/sh
# Every page of docs/reproductions has samples: a figure of it beside the command that makes it, which is run here.
#   <!-- sample "words of the row" FIGURE TOLERANCE%
#   commands, whose last line of output is the number; `field NAME FACTOR` takes it from the last row of CSV
#   -->
# Words and figure must stand in one line of the page. Only figures that are simulated and the same on every machine.
# Usage: cli_docs_reproductions.sh PROGRAM SOURCE_DIR
set -eu
program=$1 source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/run" <<'END'
set -eu
ccllab() { "$program" "$@"; }
field() { # name in the head of CSV, factor
    awk -F, -v name="$1" -v factor="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next }
        { n = split($at, part, "/"); value = part[1] / (n == 2 ? part[2] : 1) } END { printf "%.9g\n", factor * value }'
}
. "$1"
END
export program source XDG_DATA_HOME="$dir"

check_page() { # FILE: says what is wrong, one line each
    rm -rf "$dir/work" && mkdir "$dir/work"
    awk -v dir="$dir/work" '
        /^<!-- sample "/ { n++; file = dir "/" n; split($0, part, "\""); print part[2] >(file ".row"); print part[3] >(file ".head"); next }
        /^-->/ { if (file) close(file ".sh"); file = ""; next }
        file { print >(file ".sh"); next }
        { print >(dir "/page") }' "$1"
    [ -e "$dir/work/1.sh" ] || echo "$(basename "$1"): no sample"
    for head in "$dir"/work/*.head; do
        [ -e "$head" ] || continue
        row=$(cat "${head%.head}.row")
        read -r figure tolerance <"$head"
        grep -F -e "$row" "$dir/work/page" | grep -qF -e "$figure" ||
            echo "$(basename "$1"): no line has both \"$row\" and $figure"
        got=$(cd "$dir/work" && sh "$dir/run" "${head%.head}.sh" 2>"$dir/err" | tail -n 1) || true
        awk -v got="$got" -v figure="$figure" -v tolerance="$tolerance" 'BEGIN {
            gsub(",", "", figure); n = split(figure, part, "/"); want = part[1] / (n == 2 ? part[2] : 1)
            off = got - want; off = off < 0 ? -off : off
            exit !(got != "" && want != 0 && off <= want * tolerance / 100) }' ||
            echo "$(basename "$1"): \"$row\": $figure, but now it is ${got:-nothing: $(head -n 1 "$dir/err")}"
    done
}

bad=0
say() { echo "$*"; bad=1; }
# It can fail: a page without a sample, one whose figure has changed, one whose row has gone.
printf '# A page\n\n| a row | 7 |\n' >"$dir/none.md"
printf '| a row | 7 |\n\n<!-- sample "a row" 7 1%%\necho 8\n-->\n' >"$dir/other.md"
printf '| a line | 7 |\n\n<!-- sample "a row" 7 1%%\necho 7\n-->\n' >"$dir/gone.md"
printf '| a row | 7 |\n\n<!-- sample "a row" 7 1%%\nprintf "x,y\\n1,7.05\\n" | field y 1\n-->\n' >"$dir/right.md"
[ "$(check_page "$dir/none.md")" = 'none.md: no sample' ] || say "a page without a sample is accepted"
[ "$(check_page "$dir/other.md")" = 'other.md: "a row": 7, but now it is 8' ] || say "another figure is accepted"
[ "$(check_page "$dir/gone.md")" = 'gone.md: no line has both "a row" and 7' ] || say "a row that is gone is accepted"
[ -z "$(check_page "$dir/right.md")" ] || say "a right page is refused: $(check_page "$dir/right.md")"
for page in "$source"/docs/reproductions/*.md; do
    said=$(check_page "$page")
    [ -z "$said" ] || say "$said"
done
exit $bad
