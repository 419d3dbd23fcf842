#!/bin/sh
# A job of two processes that were started apart: process 0 prints the result, both end with 0; by mpirun's
# environment too. Usage: cli_run_job.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
program=$2/tests/cli/data/allgather_2.xml
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
root=127.0.0.1:$((20000 + $$ % 20000))
for over in shm tcp; do
    options= # shm is the default on one machine
    [ $over = shm ] || options="--transport $over"
    # shellcheck disable=SC2086
    "$ccllab" run "$program" --size 64K --world 2 --rank 1 --rendezvous "$root" $options >"$dir/one" &
    # shellcheck disable=SC2086
    "$ccllab" run "$program" --size 64K --world 2 --rank 0 --rendezvous "$root" $options >"$dir/zero"
    wait $!
    [ ! -s "$dir/one" ] || { echo "process 1 printed: $(cat "$dir/one")"; exit 1; }
    grep -q "2 processes over $over" "$dir/zero" || { cat "$dir/zero"; exit 1; }
    grep -q 'right$' "$dir/zero" || { cat "$dir/zero"; exit 1; }
done

export OMPI_COMM_WORLD_SIZE=2
# --root, its older name.
OMPI_COMM_WORLD_RANK=1 "$ccllab" run "$program" --size 64K --root "$root" >/dev/null &
OMPI_COMM_WORLD_RANK=0 "$ccllab" run "$program" --size 64K --rendezvous "$root" --json >"$dir/json"
wait $!
grep -q '"processes": 2' "$dir/json" || { cat "$dir/json"; exit 1; }

# Where the module for MPI is not: asked for, it is an error; else each process runs alone, and says so.
cp "$ccllab" "$dir/alone"
code=0
"$dir/alone" run "$program" --size 64K --bootstrap mpi 2>"$dir/err" || code=$?
[ $code = 4 ] && grep -q 'libccl_bootstrap_mpi.so is not here' "$dir/err" || { cat "$dir/err"; exit 1; }
OMPI_COMM_WORLD_RANK=1 "$dir/alone" run "$program" --size 64K >"$dir/out" 2>"$dir/err"
grep -q 'process 1 of 2 that a launcher started runs alone' "$dir/err" || { cat "$dir/err"; exit 1; }
grep -q 'right$' "$dir/out" || { cat "$dir/out"; exit 1; }
for wrong in '--bootstrap env' '--bootstrap root' '--bootstrap mpi --rendezvous here:1' '--bootstrap env --world 2'; do
    code=0
    # shellcheck disable=SC2086
    OMPI_COMM_WORLD_RANK=1 "$ccllab" run "$program" $wrong >/dev/null 2>&1 || code=$?
    [ $code = 2 ] || { echo "$wrong: exit code $code"; exit 1; }
done
