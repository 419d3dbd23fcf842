#!/bin/sh
# Each public header compiles alone, twice over, as C11 and, where a compiler is there, as C++.
# Usage: headers.sh CC SOURCE-FOLDER MODULE...
set -eu
cc=$1 root=$2
shift 2
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
flags="-I$root $(pkg-config --cflags jansson) -Wall -Wextra -Werror -fsyntax-only"
for module in "$@"; do
    printf '#include "%s/%s.h"\n#include "%s/%s.h"\n' "$module" "$module" "$module" "$module" \
        >"$temporary/$module.c"
    # shellcheck disable=SC2086
    "$cc" -std=c11 -Wpedantic $flags "$temporary/$module.c"
    if command -v c++ >/dev/null 2>&1; then
        # shellcheck disable=SC2086
        c++ -x c++ -std=c++17 $flags "$temporary/$module.c"
    fi
done
echo "$# headers stand alone"
