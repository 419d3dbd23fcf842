#!/bin/sh
# Install into a fresh prefix, move it, and build a small program on it with find_package and with
# pkg-config. Usage: consumer.sh CMAKE BUILD SOURCE CC GENERATOR SANITIZERS BUILD-TYPE
set -eu
cmake=$1 build=$2 source=$3 cc=$4 generator=$5 sanitizers=$6 build_type=$7
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
done | sort | tr '\n' ' ')
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

libdir=$(dirname "$(find "$prefix" -name ccllab.pc)")
export PKG_CONFIG_PATH="$libdir"
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 $flags "$temporary/consumer.c" -o "$temporary/consumer" \
    $(pkg-config --cflags --libs ccllab)
"$temporary/consumer"

# The worked example of docs/howto/add-a-synthesizer.md, as it stands there: code, and what it prints.
page=$source/docs/howto/add-a-synthesizer.md
block() { # the code block behind a comment
    awk -v mark="<!-- $1 -->" '$0 == mark { next_is = 1; next } next_is && /^```/ { on = !on; if (!on) exit; next } on' "$page"
}
block 'example: biring.c' >"$temporary/biring.c"
block 'example output' >"$temporary/wanted"
[ -s "$temporary/biring.c" ] && [ -s "$temporary/wanted" ] || { echo "$page: no example"; exit 1; }
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 -Wall -Wextra -Werror $flags "$temporary/biring.c" -o "$temporary/biring" \
    $(pkg-config --cflags --libs ccllab)
"$temporary/biring" dgx-h100 >"$temporary/printed"
diff "$temporary/wanted" "$temporary/printed" || { echo "$page: the example prints something else"; exit 1; }
if "$temporary/biring" no-such-cluster 2>/dev/null; then echo "$page: the example takes any cluster"; exit 1; fi

if [ -x "$prefix/bin/ccllab" ]; then
    (cd / && "$prefix/bin/ccllab" --version)
    for file in share/man/man1/ccllab.1 share/man/man1/ccllab-topology-show.1 \
        share/bash-completion/completions/ccllab share/doc/ccllab/docs/commands.md \
        share/ccllab/schemas/compare-1.json; do
        [ -s "$prefix/$file" ] || { echo "$file is not installed"; exit 1; }
    done
fi
