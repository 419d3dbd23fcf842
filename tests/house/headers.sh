#!/bin/sh
# Each public header compiles alone, twice over, as C11 and, where a compiler is there, as C++, and what takes a struct of
# options is shown structs of other sizes.
# Public are the header of the module's name and those of its folders that this one includes.
# Usage: headers.sh CC SOURCE-FOLDER MODULE...
set -eu
cc=$1 root=$2
shift 2
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
flags="-I$root -Wall -Wextra -Werror -fsyntax-only"
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

# unit_options.c calls every function of the public headers that takes a struct of options.
takers() { # headers: names of these functions
    cat "$@" | tr '\n' ' ' | sed 's,/\*[^*]*\*\(\*\|[^*/][^*]*\*\)*/, ,g' | grep -oE 'ccl_status_t ccl_[a-z0-9_]+\([^;{}]*_options_t \*[^;{}]*\);' |
        grep -E '_options_t \*(options|synth|lower|run)[,)]' | sed 's/^ccl_status_t //; s/(.*//' | sort -u
}
takers $(for header in $headers; do echo "$root/$header"; done) >"$temporary/takers"
[ "$(wc -l <"$temporary/takers")" -ge 35 ] || { echo "the check sees hardly a function that takes options"; exit 1; }
missing=$(while read -r name; do
    grep -q "[ (]$name(" "$root/tests/house/unit_options.c" || echo "$name"
done <"$temporary/takers")
[ -z "$missing" ] || { echo "tests/house/unit_options.c does not call:" $missing; exit 1; }

# A type has a name of its own in the whole tree, public or internal. Private ones of a file (no ccl_) may share theirs.
twice() { # folder: names of structs, enums, unions and callbacks that are defined more than once
    find "$1" \( -name build -o -name tests -o -name .git \) -prune -o -name '*.[ch]' -print | sort | xargs cat |
        grep -oE '^(typedef )?(struct|enum|union) ccl_[A-Za-z0-9_]+ \{|^\} ccl_[A-Za-z0-9_]+;|^typedef .*\(\*ccl_[A-Za-z0-9_]+_fn\)' |
        sed "s/.*[ *]\(ccl_[A-Za-z0-9_]*\).*/\1/" | sort | uniq -d |
        grep -vxE 'ccl_device_(handle|stream|event)' # opaque: host and GPU modules each have their own
}
mkdir "$temporary/types"
echo 'typedef struct ccl_a { int x; } ccl_a_t;' >"$temporary/types/fine.h"
printf 'typedef struct ccl_i_b {\n    int x;\n} ccl_i_b_t;\nstruct mine {\n};\n' | tee "$temporary/types/one.h" >"$temporary/types/two.h"
[ "$(twice "$temporary/types" | tr '\n' ' ')" = "ccl_i_b ccl_i_b_t " ] || { echo "the check of type names is blind"; exit 1; }
found=$(twice "$root" || true)
[ -z "$found" ] || { echo "type names that stand for two types:" $found; exit 1; }
echo "$(echo "$headers" | wc -l) headers stand alone, $(wc -l <"$temporary/takers") functions take options"
