#!/bin/sh
# Small rules of docs/STYLE.md that a text search can hold: file length, line length, tabs, trailing
# blanks, marks of unfinished work, a README in every module. Usage: text.sh SOURCE-FOLDER
set -eu
cd "$1"
modules=$(sed -n 's/^set(CCL_MODULES \(.*\))$/\1/p' CMakeLists.txt)
bad=0
say() { echo "$*"; bad=1; }

for file in $(find $modules cli tests fuzz bench examples -name '*.[ch]' 2>/dev/null | sort); do
    lines=$(wc -l <"$file")
    [ "$lines" -le 900 ] || say "$file: $lines lines, 900 are the most"
    awk -v file="$file" '
        /\t/ { print file ":" FNR ": tab"; n++ }
        /[ \t]$/ { print file ":" FNR ": blank at the end of the line"; n++ }
        length($0) > 110 { print file ":" FNR ": " length($0) " columns"; n++ }
        /(^|[^A-Za-z])(TO[D]O|FIX[M]E|X[X]X)([^A-Za-z]|$)/ { print file ":" FNR ": unfinished work"; n++ }
        END { exit n > 0 }' "$file" || bad=1
done
for module in $modules cli; do
    [ -d "$module" ] || continue
    if [ -f "$module/README.md" ]; then
        lines=$(wc -l <"$module/README.md")
        [ "$lines" -le 40 ] || say "$module/README.md: $lines lines, 40 are the most"
    else
        say "$module has no README.md"
    fi
done
exit $bad
