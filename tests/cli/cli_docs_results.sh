#!/bin/sh
# docs/results.md has the keys of every JSON result, as `ccllab schema` prints them.
# Usage: cli_docs_results.sh PROGRAM SOURCE_DIR [--update]
set -eu
ccllab=$1
page=$2/docs/results.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

{
    cat <<'HEAD'
# Results

Every command writes its result as JSON with `--json`. A result begins with `schema`, "ccllab/NAME/1", and `version`,
that of ccllab. Keys keep their order; within a schema's version keys are only added. Numbers read back to the same
double. The keys of each NAME stand below, `[]` behind a key whose value is a list of objects. Where it can be null, the
meaning says what that stands for; "not always there" are keys that a result has only where they make sense.

`ccllab schema` lists the results, `ccllab schema NAME` prints one of these tables, and `ccllab schema NAME --json` the
JSON Schema (draft 2020-12). The schemas are installed as `PREFIX/share/ccllab/schemas/NAME-1.json`. Tables and
schemas are made from the descriptions that write the results.
HEAD
    "$ccllab" schema --csv | tr -d '\r' | sed 1d | cut -d, -f1 >"$dir/names"
    while read -r name; do
        "$ccllab" schema "$name" --json >"$dir/schema"
        command=$(sed -n 's/^  "title": "\(.*\)",$/\1/p' "$dir/schema")
        content=$(sed -n 's/^  "description": "\(.*\)",$/\1/p' "$dir/schema")
        printf '\n## %s\n\n`%s`: %s.\n\n```text\n' "$name" "$command" "${content%\?}"
        "$ccllab" schema "$name"
        printf '```\n'
    done <"$dir/names"
} >"$dir/page"
[ "$(wc -l <"$dir/names")" -ge 28 ] || { echo "ccllab schema lists too few results"; exit 1; }
if [ "${3:-}" = --update ]; then
    cp "$dir/page" "$page"
elif ! diff "$page" "$dir/page"; then
    echo "docs/results.md is not what ccllab schema prints; write it anew: sh $0 PROGRAM SOURCE_DIR --update"
    exit 1
fi
