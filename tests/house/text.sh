#!/bin/sh
# Small rules of docs/STYLE.md that a text search can hold: line length, tabs, trailing
# blanks, marks of unfinished work, a README in every folder with sources that explains instead of listing files.
# Usage: text.sh SOURCE-FOLDER
set -eu
cd "$1"
modules=$(sed -n 's/^set(CCL_MODULES \(.*\))$/\1/p' CMakeLists.txt)
bad=0
say() { echo "$*"; bad=1; }

# shellcheck disable=SC2046,SC2086
awk '
    /\t/ { print FILENAME ":" FNR ": tab"; n++ }
    /[ \t]$/ { print FILENAME ":" FNR ": blank at the end of the line"; n++ }
    length($0) > 110 { print FILENAME ":" FNR ": " length($0) " columns"; n++ }
    /(^|[^A-Za-z])(TO[D]O|FIX[M]E|X[X]X)([^A-Za-z]|$)/ { print FILENAME ":" FNR ": unfinished work"; n++ }
    END { exit n > 0 }' $(find $modules cli tests fuzz bench examples -name '*.[ch]' 2>/dev/null | sort) || bad=1
# A shell comment has a blank after its mark; without one it is a command that somebody switched off.
off=$(find tests tools -type f \( -name '*.sh' -o -path 'tools/*' \) -exec grep -nE '^ *#[^ !]' {} + | grep -vE ':#(include .*)?$' || true)
[ -z "$off" ] || say "switched off:
$off"
# A README for every folder with sources, of tests only at the top and for the house.
folders() {
    # shellcheck disable=SC2086
    find $modules cli bench fuzz tests -type f \( -name '*.[ch]' -o -name '*.cu' \) 2>/dev/null | sed 's,/[^/]*$,,' |
        sed 's,^tests/.*,tests,' | sort -u
    [ ! -d tests/house ] || echo tests/house
}
for folder in $(folders); do
    if [ -f "$folder/README.md" ]; then
        lines=$(wc -l <"$folder/README.md")
        [ "$lines" -ge 8 ] && [ "$lines" -le 60 ] ||
            say "$folder/README.md: $lines lines; half a page is 8 to 60"
        # It explains concepts; what a file does stands at its head.
        listed=$(grep -cE '^[-|] *`?[a-z0-9_]+\.[ch]`?' "$folder/README.md" || true)
        [ "$listed" -le 2 ] || say "$folder/README.md lists $listed files instead of explaining concepts"
    else
        say "$folder has no README.md"
    fi
done
exit $bad
