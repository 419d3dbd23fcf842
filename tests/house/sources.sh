#!/bin/sh
# The hash of the sources that points of the lab notebook carry: the program has that of its sources, a copy
# elsewhere has the same, and another byte in one of them, another name or a file less make another.
# Usage: sources.sh CMAKE SOURCE-FOLDER LIST TEMPLATE PROGRAM (LIST: that of the build)
set -eu
cmake=$1 source=$2 list=$3 template=$4 program=$5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

id() { # root, list
    "$cmake" -DROOT="$1" -DLIST="$2" -DIN="$template" -DOUT="$dir/out.c" -P "$source/cmake/source_id.cmake"
    sed -n 's/.*+\([0-9a-f]\{12\}\)".*/\1/p' "$dir/out.c"
}
said=$("$program" --version | sed 's/.*+//')
here=$(id "$source" "$list")
[ -n "$here" ] && [ "$said" = "$here" ] || { echo "the program is of sources $said, here are $here"; exit 1; }

tr ';' '\n' <"$list" | sed "s|^$source/||" >"$dir/names"
for name in sim/engine.c synth/synth.h search/tune/tune.c models/cost.c base/json.c; do
    grep -qx "$name" "$dir/names" || { echo "$name is not among the sources"; exit 1; }
done
mkdir "$dir/copy"
(cd "$source" && tar cf - -T "$dir/names") | (cd "$dir/copy" && tar xf -)
sed "s|$source/|$dir/copy/|g" "$list" >"$dir/list"
copy=$(id "$dir/copy" "$dir/list")
[ "$copy" = "$here" ] || { echo "a copy of the sources has $copy, not $here"; exit 1; }
printf ' ' >>"$dir/copy/sim/engine.c"
edited=$(id "$dir/copy" "$dir/list")
cp "$source/sim/engine.c" "$dir/copy/sim/engine.c"
sed "s|;$dir/copy/sim/engine.c||" "$dir/list" >"$dir/less"
less=$(id "$dir/copy" "$dir/less")
mv "$dir/copy/sim/engine.c" "$dir/copy/sim/motor.c"
sed "s|sim/engine.c|sim/motor.c|" "$dir/list" >"$dir/renamed"
renamed=$(id "$dir/copy" "$dir/renamed")
[ "$(printf '%s\n' "$here" "$edited" "$less" "$renamed" | sort -u | wc -l)" = 4 ] ||
    { echo "edited $edited, one less $less, renamed $renamed, as it is $here: two are the same"; exit 1; }
echo "built from sources $here"
