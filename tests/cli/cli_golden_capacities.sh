#!/bin/sh
# synth --explain-capacities prints what it always printed, as text and as JSON.
set -eu
program=$1
data=$(dirname "$0")/data
[ -d "$data" ] || data=$2/tests/cli/data
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$program" synth -t heteccl-v100-4+8 -c allgather --size 1GB --explain-capacities >"$out"
diff "$data/capacities.txt" "$out"
"$program" synth -t heteccl-v100-4+8 -c reducescatter --size 1GB --explain-capacities --capacity ceiling \
    --json >"$out"
diff "$data/capacities.json" "$out"
