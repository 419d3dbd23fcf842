#!/bin/sh
# The reference has all public headers and, where doxygen is, is made without a warning. Usage: reference.sh SOURCE-FOLDER
set -eu
cd "$1"
for module in $(sed -n 's/^set(CCL_MODULES \(.*\))$/\1/p' CMakeLists.txt); do
    for header in "$module/$module.h" $(sed -n "s,^#include \"\($module/.*\)\"\$,\1,p" "$module/$module.h"); do
        grep -qF "$header" docs/Doxyfile || { echo "docs/Doxyfile: $header is not in INPUT"; exit 1; }
    done
done
command -v doxygen >/dev/null 2>&1 || { echo "all headers are in it; no doxygen to make it"; exit 77; }
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
make_reference() { # configuration on standard input
    { cat; echo "OUTPUT_DIRECTORY = $temporary"; } | doxygen - 2>&1
}
said=$({ cat docs/Doxyfile; echo "INPUT += $temporary/wrong.h"; } >"$temporary/Doxyfile"
    printf '/** @file wrong.h */\n/** @param none  there is none. */\nvoid ccl_wrong(int some);\n' >"$temporary/wrong.h"
    make_reference <"$temporary/Doxyfile" | grep -c 'wrong.h' || true)
[ "$said" -gt 0 ] || { echo "the checker is blind: a wrong comment passes"; exit 1; }
said=$(make_reference <docs/Doxyfile)
[ -z "$said" ] || { echo "$said"; exit 1; }
echo "the reference is made without a warning"
