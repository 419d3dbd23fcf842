#!/bin/sh
# A job of two processes that were started apart: process 0 prints the result, both end with 0; by mpirun's
# environment too. Usage: cli_run_job.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
program=$2/tests/cli/data/allgather_2.xml
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
root=127.0.0.1:$((20000 + $$ % 20000))
"$ccllab" run "$program" --size 64K --world 2 --rank 1 --root "$root" >"$dir/one" &
"$ccllab" run "$program" --size 64K --world 2 --rank 0 --root "$root" >"$dir/zero"
wait $!
[ ! -s "$dir/one" ] || { echo "process 1 printed: $(cat "$dir/one")"; exit 1; }
grep -q '2 processes over tcp' "$dir/zero" || { cat "$dir/zero"; exit 1; }
grep -q 'right$' "$dir/zero" || { cat "$dir/zero"; exit 1; }

export OMPI_COMM_WORLD_SIZE=2
OMPI_COMM_WORLD_RANK=1 "$ccllab" run "$program" --size 64K --root "$root" >/dev/null &
OMPI_COMM_WORLD_RANK=0 "$ccllab" run "$program" --size 64K --root "$root" --json >"$dir/json"
wait $!
grep -q '"processes": 2' "$dir/json" || { cat "$dir/json"; exit 1; }
