#!/bin/sh
# The pictures of the docs are what tools/draw-docs draws, and every one is shown in some page.
# Usage: cli_docs_pictures.sh PROGRAM SOURCE_DIR
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
CCLLAB=$1 "$2/tools/draw-docs" "$dir"
ls "$2/docs/pictures" >"$dir.there" && ls "$dir" >"$dir.drawn"
cmp -s "$dir.there" "$dir.drawn" || say "docs/pictures has other files than tools/draw-docs draws"
rm -f "$dir.there" "$dir.drawn"
for picture in "$dir"/*.svg; do
    name=$(basename "$picture")
    cmp -s "$picture" "$2/docs/pictures/$name" || say "docs/pictures/$name is old; run tools/draw-docs"
    grep -qF "pictures/$name" "$2"/docs/*.md "$2"/docs/reproductions/*.md "$2/README.md" || say "no page shows docs/pictures/$name"
    [ "$(wc -c <"$picture")" -lt 100000 ] || say "docs/pictures/$name is too large for docs"
done
exit $bad
