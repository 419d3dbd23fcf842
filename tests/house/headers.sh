#!/bin/sh
# Each public header compiles alone, twice over, as C11 and, where a compiler is there, as C++, and what takes a struct of
# options is shown structs of other sizes.
# Usage: headers.sh CC SOURCE-FOLDER MODULE...
set -eu
cc=$1 root=$2
shift 2
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
flags="-I$root -Wall -Wextra -Werror -fsyntax-only"
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

# unit_options.c calls every function of the public headers that takes a struct of options.
takers() { # headers: names of these functions
    cat "$@" | tr '\n' ' ' | sed 's,/\*[^*]*\*\(\*\|[^*/][^*]*\*\)*/, ,g' | grep -oE 'ccl_status_t ccl_[a-z0-9_]+\([^;{}]*_options_t \*[^;{}]*\);' |
        grep -E '_options_t \*(options|synth|lower|run)[,)]' | sed 's/^ccl_status_t //; s/(.*//' | sort -u
}
takers $(for module in "$@"; do echo "$root/$module/$module.h"; done) >"$temporary/takers"
[ "$(wc -l <"$temporary/takers")" -ge 35 ] || { echo "the check sees hardly a function that takes options"; exit 1; }
missing=$(while read -r name; do
    grep -q "[ (]$name(" "$root/tests/house/unit_options.c" || echo "$name"
done <"$temporary/takers")
[ -z "$missing" ] || { echo "tests/house/unit_options.c does not call:" $missing; exit 1; }
echo "$# headers stand alone, $(wc -l <"$temporary/takers") functions take options"
