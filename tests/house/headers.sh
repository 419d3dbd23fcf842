#!/bin/sh
# Each public header compiles alone, twice over, as C11 and, where a compiler is there, as C++.
# Public are the header of the module's name and those of its folders that this one includes.
# Usage: headers.sh CC SOURCE-FOLDER MODULE...
set -eu
cc=$1 root=$2
shift 2
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
flags="-I$root $(pkg-config --cflags jansson) -Wall -Wextra -Werror -fsyntax-only"
headers=$(for module in "$@"; do
    echo "$module/$module.h"
    sed -n "s,^#include \"\($module/.*\)\"\$,\1,p" "$root/$module/$module.h"
done)
for header in $headers; do
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$temporary/alone.c"
    # shellcheck disable=SC2086
    "$cc" -std=c11 -Wpedantic $flags "$temporary/alone.c"
    if command -v c++ >/dev/null 2>&1; then
        # shellcheck disable=SC2086
        c++ -x c++ -std=c++17 $flags "$temporary/alone.c"
    fi
done
echo "$headers" | awk 'END { print NR " headers stand alone" }'
