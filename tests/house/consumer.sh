#!/bin/sh
# Install into a fresh prefix, move it, and build a small program on it with find_package and with
# pkg-config. Usage: consumer.sh CMAKE BUILD SOURCE CC GENERATOR SANITIZERS BUILD-TYPE NM
set -eu
cmake=$1 build=$2 source=$3 cc=$4 generator=$5 sanitizers=$6 build_type=$7 nm=$8
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
flags=
[ "$sanitizers" = none ] || flags="-fsanitize=$sanitizers"

"$cmake" --install "$build" --prefix "$temporary/first" --config "$build_type" >"$temporary/log" ||
    { cat "$temporary/log"; exit 1; }
mv "$temporary/first" "$temporary/prefix" # an installed tree may be moved
prefix=$temporary/prefix

headers=$(cd "$prefix/include" && find . -type f | sort | tr '\n' ' ')
want=$(for module in $(sed -n 's/^set(CCL_MODULES \(.*\))$/\1/p' "$source/CMakeLists.txt"); do
    echo "./ccllab/$module/$module.h"
    sed -n "s,^#include \"\($module/.*\)\"\$,./ccllab/\1,p" "$source/$module/$module.h"
done | { echo ./ccllab/ccllab.h; cat; } | sort | tr '\n' ' ')
[ "$headers" = "$want" ] || { echo "installed headers: $headers, not $want"; exit 1; }
grep -rlF "$source" "$prefix/lib" --include='*.cmake' --include='*.pc' &&
    { echo "the files above name the source folder"; exit 1; }

cp "$source/tests/house/consumer.c" "$source/tests/house/consumer.cmake" "$temporary/"
mkdir "$temporary/by_cmake"
mv "$temporary/consumer.cmake" "$temporary/by_cmake/CMakeLists.txt"
cp "$temporary/consumer.c" "$temporary/by_cmake/"
"$cmake" -S "$temporary/by_cmake" -B "$temporary/by_cmake/build" -G "$generator" \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags" \
    >"$temporary/log" 2>&1 || { cat "$temporary/log"; exit 1; }
"$cmake" --build "$temporary/by_cmake/build" >"$temporary/log" 2>&1 ||
    { cat "$temporary/log"; exit 1; }
"$temporary/by_cmake/build/consumer"

# The headers need no other library's: these stand in the way of any that is there.
mkdir "$temporary/foreign"
for header in jansson expat sqlite3 cairo glpk z3 check; do
    echo "#error \"$header.h is included\"" >"$temporary/foreign/$header.h"
done
printf '#include <%s.h>\nint main(void) { return 0; }\n' jansson >"$temporary/foreign/sees.c"
if "$cc" -fsyntax-only -I"$temporary/foreign" "$temporary/foreign/sees.c" 2>/dev/null; then
    echo "the checker is blind: jansson.h may be included"; exit 1
fi
flags="$flags -I$temporary/foreign"

libdir=$(dirname "$(find "$prefix" -name ccllab.pc)")
export PKG_CONFIG_PATH="$libdir"
LD_LIBRARY_PATH=$(dirname "$libdir")
export LD_LIBRARY_PATH

# One library, with a version, that exports what the headers declare and nothing else.
library=$(find "$prefix" -name 'libccllab.so')
[ -L "$library" ] || { echo "no link libccllab.so to a library with a version"; exit 1; }
find "$prefix" -name 'libccl_*.a' | grep . && { echo "static libraries are installed"; exit 1; }
"$nm" -D --defined-only "$library" | awk '$2 ~ /^[TDBR]$/ { sub(/@.*/, "", $3); print $3 }' |
    grep -v '^CCLLAB_' | sort >"$temporary/exported"
find "$prefix/include/ccllab" -name '*.h' -exec cat {} + | tr -s '[:space:]' ' ' | grep -oE '\bccl_[A-Za-z0-9_]+' | sort -u >"$temporary/named"
comm -23 "$temporary/exported" "$temporary/named" >"$temporary/stray"
[ ! -s "$temporary/stray" ] || { echo "exported, but in no public header:"; cat "$temporary/stray"; exit 1; }
[ "$(wc -l <"$temporary/exported")" -gt 300 ] || { echo "the library exports hardly anything"; exit 1; }
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 $flags "$temporary/consumer.c" -o "$temporary/consumer" \
    $(pkg-config --cflags --libs ccllab)
"$temporary/consumer"

# The one header, also in C++.
printf '#include <ccllab.h>\nint main() { return sizeof(CCL_VERSION) == 0; }\n' >"$temporary/one.cc"
# shellcheck disable=SC2046,SC2086
if command -v c++ >/dev/null 2>&1; then
    c++ -Wall -Wextra -Werror $flags "$temporary/one.cc" -o "$temporary/one" $(pkg-config --cflags --libs ccllab)
    "$temporary/one"
fi

# The examples, each against what it should say.
example() { # name, pattern, arguments...
    name=$1 pattern=$2
    shift 2
    "$temporary/example/$name" "$@" >"$temporary/example/$name.out" 2>&1 ||
        { echo "examples/$name fails:"; cat "$temporary/example/$name.out"; exit 1; }
    grep -q "$pattern" "$temporary/example/$name.out" ||
        { echo "examples/$name says no \"$pattern\":"; cat "$temporary/example/$name.out"; exit 1; }
}
mkdir "$temporary/example"
for file in "$prefix"/share/doc/ccllab/examples/*.c; do
    [ "$(basename "$file")" != biring.c ] || continue
    # shellcheck disable=SC2046,SC2086
    "$cc" -std=c11 -Wall -Wextra -Werror $flags "$file" -o "$temporary/example/$(basename "$file" .c)" \
        $(pkg-config --cflags --libs ccllab)
done
for file in "$source"/examples/*.c; do # none is left out
    [ "$(basename "$file")" = biring.c ] || [ -x "$temporary/example/$(basename "$file" .c)" ] || { echo "$file is not installed"; exit 1; }
done
example read '^heteccl-h20-4+8: 12 GPUs on 2 servers' heteccl-h20-4+8
example build '"id": "s0/gpu3"'
"$temporary/example/synthesize" dgx-h100 1048576 >"$temporary/example/direct.xml" 2>/dev/null
example verify 'right for allgather on 8 ranks' "$temporary/example/direct.xml"
sed '0,/type="r"/s//type="rrc"/' "$temporary/example/direct.xml" >"$temporary/example/wrong.xml"
if "$temporary/example/verify" "$temporary/example/wrong.xml" >/dev/null; then
    echo "examples/verify takes a wrong program"; exit 1
fi
example simulate '^ *16777216 ' dgx-h100 "$temporary/example/direct.xml"
example bound '^direct: .* gap 1\.' dgx-h100 direct
example sweep '^scale:bandwidth:net=0.25 ' heteccl-h20-4+8
example alltoallv '^step 1: .* 0 of ' 'dgx-h100*2'

# The worked example of docs/howto/add-a-synthesizer.md is examples/biring.c, a plugin, and the page says what it prints.
page=$source/docs/howto/add-a-synthesizer.md
block() { # the code block behind a comment
    awk -v mark="<!-- $1 -->" '$0 == mark { next_is = 1; next } next_is && /^```/ { on = !on; if (!on) exit; next } on' "$page"
}
block 'example: biring.c' | diff - "$prefix/share/doc/ccllab/examples/biring.c" || { echo "$page: not examples/biring.c"; exit 1; }
block 'example output' >"$temporary/wanted"
[ -s "$temporary/wanted" ] || { echo "$page: no output"; exit 1; }
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 -Wall -Wextra -Werror -shared -fPIC $flags "$prefix/share/doc/ccllab/examples/biring.c" -o "$temporary/biring.so" \
    $(pkg-config --cflags ccllab)
if [ -x "$prefix/bin/ccllab" ]; then
    # Plugins call the program's own copy of the library: it has every function.
    "$nm" -D --defined-only "$prefix/bin/ccllab" | awk '{ print $3 }' | sort >"$temporary/program"
    comm -23 "$temporary/exported" "$temporary/program" >"$temporary/lacks"
    [ ! -s "$temporary/lacks" ] || { echo "the program does not export:"; cat "$temporary/lacks"; exit 1; }
    (cd "$temporary" && "$prefix/bin/ccllab" compare --plugin biring.so -t dgx-h100 -c allgather --sizes 64K:256M:16 \
        --with ring,biring) | head -n "$(wc -l <"$temporary/wanted")" >"$temporary/printed"
    diff "$temporary/wanted" "$temporary/printed" || { echo "$page: the example prints something else"; exit 1; }
fi
# A program on the shared library loads it as well.
cat >"$temporary/loads.c" <<'EOF'
#include <make/make.h>
#include <stdio.h>
int main(int argc, char **argv) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_made_t made = {0};
    synth.size_bytes = 1 << 20;
    if (argc != 2 || ccl_plugin_load(argv[1], &err) != CCL_OK || ccl_topology_read(NULL, "dgx-h100", &topo, &err) != CCL_OK ||
        ccl_collective_create(CCL_ALLGATHER, 8, 1, 0, &want, &err) != CCL_OK ||
        ccl_make(NULL, "biring", topo, NULL, want, &synth, NULL, true, &made, &err) != CCL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("biring %.2f us\n", made.run->time_s * 1e6);
    ccl_made_fini(&made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return 0;
}
EOF
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 -Wall -Wextra -Werror $flags "$temporary/loads.c" -o "$temporary/loads" $(pkg-config --cflags --libs ccllab)
[ "$("$temporary/loads" "$temporary/biring.so")" = "biring 27.17 us" ] || { echo "a program does not load the plugin"; exit 1; }

if [ -x "$prefix/bin/ccllab" ]; then
    (cd / && "$prefix/bin/ccllab" --version)
    written= # by the program itself; a sanitized one is not asked
    [ "$sanitizers" != none ] || written='share/man/man1/ccllab.1 share/man/man1/ccllab-topology-show.1
        share/bash-completion/completions/ccllab share/ccllab/schemas/compare-1.json'
    for file in $written share/doc/ccllab/docs/commands.md share/doc/ccllab/LICENSE share/doc/ccllab/CHANGELOG.md \
        share/doc/ccllab/SECURITY.md; do
        [ -s "$prefix/$file" ] || { echo "$file is not installed"; exit 1; }
    done
fi
