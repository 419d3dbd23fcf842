#!/bin/sh
# The libraries decide nothing for the process (no exit, no printing, no global random numbers), export
# only ccl_ names and hold no mutable data but one list. Usage: symbols.sh NM OBJDUMP CC LIBRARY...
set -eu
nm=$1 objdump=$2 cc=$3
shift 3

forbidden='exit|_exit|_Exit|quick_exit|abort|atexit|printf|vprintf|__printf_chk|__vprintf_chk|puts|putchar|putc|perror|system|rand|srand|rand_r|random|srandom|drand48|srand48|setlocale|setenv|putenv|signal|stderr|strtok|__assert'

check() { # library; prints violations
    name=$(basename "$1")
    "$nm" -u "$1" 2>/dev/null | awk -v name="$name" -v bad="^($forbidden)$" '
        /:$/ { member = $1 }
        $1 == "U" && $2 ~ bad { print name ": " member " uses " $2 }'
    # stdout is for ccl_file_write("-") alone.
    "$nm" -u "$1" 2>/dev/null | awk -v name="$name" '
        /:$/ { member = $1 }
        $2 == "stdout" && !(name == "libccl_base.a" && member ~ /^file\.c/) {
            print name ": " member " uses stdout" }'
    "$nm" --defined-only --extern-only "$1" 2>/dev/null | awk -v name="$name" '
        /:$/ { member = $1 }
        NF == 3 && $3 !~ /^(ccl_|\.L)/ {
            print name ": " member " exports " $3 }'
    "$objdump" -t "$1" 2>/dev/null | awk -v name="$name" '
        /file format/ { member = $1 }
        $0 ~ / O [.](data|bss|tdata|tbss)/ && $0 !~ / O [.]data[.]rel[.]ro/ {
            print name ": " member " holds mutable data: " $NF }
        $0 ~ / O [*]COM[*]/ { print name ": " member " holds mutable data: " $NF }'
}

# The checker must see each kind of violation.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cat >"$temporary/bad.c" <<'EOF'
#include <stdio.h>
#include <stdlib.h>
int ccl_counter;
const char *const ccl_names[] = {"a", "b"};
static int calls = 3;
void stray(int x);
void stray(int x) { if (x > calls++) { fputs("no", stdout); exit(rand()); } }
EOF
"$cc" -O0 -fPIC -c "$temporary/bad.c" -o "$temporary/bad.o"
ar rc "$temporary/libccl_bad.a" "$temporary/bad.o"
found=$(check "$temporary/libccl_bad.a" | sed 's/.*bad\.o:* *//; s/.*uses /uses /' | sort | tr '\n' ',')
want="exports stray,holds mutable data: calls,holds mutable data: ccl_counter,uses exit,uses rand,uses stdout,"
[ "$found" = "$want" ] || { echo "the checker is blind: '$found', not '$want'"; exit 1; }

# The list of synthesizers that plugins add to (decision 78) is mutable, and nothing else.
allowed='libccl_synth.a: registry.c.o: holds mutable data: registry'
violations=$(for library in "$@"; do check "$library"; done)
echo "$violations" | grep -qxF "$allowed" || { echo "nothing needs this any more: $allowed"; exit 1; }
violations=$(echo "$violations" | grep -vxF "$allowed" || true)
[ -z "$violations" ] || { echo "$violations"; exit 1; }
echo "$# libraries keep to themselves"
