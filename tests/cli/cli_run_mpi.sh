#!/bin/sh
# Jobs that find each other by MPI: several runs in one job; a process that is killed, and one that never comes,
# are errors within seconds. Skipped where the module or mpirun is missing.
# Usage: cli_run_mpi.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
program=$2/tests/cli/data/allgather_2.xml
command -v mpirun >/dev/null 2>&1 && [ -f "$(dirname "$ccllab")/../runtime/libccl_bootstrap_mpi.so" ] ||
    { echo "no MPI here"; exit 77; }
flags=
open=false
if mpirun --version | grep -q 'Open MPI'; then
    flags="--allow-run-as-root --oversubscribe"
    open=true
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
say() { echo "$*"; cat "$dir/out" "$dir/err"; exit 1; }
go() { # processes command...: the job's exit code in $code
    n=$1
    shift
    code=0
    # shellcheck disable=SC2086
    timeout 60 mpirun $flags -n "$n" "$@" >"$dir/out" 2>"$dir/err" || code=$?
}

go 2 "$ccllab" run "$program" --sizes 4K:64K:4
[ $code = 0 ] || say "exit code $code"
[ "$(grep -c '2 processes over tcp' "$dir/out")" = 1 ] || say "process 0 alone should print"
[ "$(grep -c 'right$' "$dir/out")" = 3 ] || say "not three runs"

"$ccllab" synth --topology 'servers:1 gpus:8 nvswitch=300GB/s,1us' --collective allreduce --with ring --size 1M \
    -o "$dir/ring.xml" >/dev/null
go 4 "$ccllab" run "$dir/ring.xml" --size 64K --bootstrap mpi --json
[ $code = 0 ] || say "exit code $code"
grep -q '"processes": 4' "$dir/out" || say "not 4 processes"

go 3 "$ccllab" run "$program" --size 64K # more processes than ranks
[ $code != 0 ] || say "3 processes of 2 ranks"
grep -q '3 processes for 2 ranks' "$dir/err" || say "not told why"

# Ranks of the launcher are in one of these.
cat >"$dir/killed" <<'EOF'
#!/bin/sh
if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 2 ]; then
    "$@" &
    sleep 1
    kill -9 $!
    wait $! || exit 0
fi
exec "$@"
EOF
cat >"$dir/missing" <<'EOF'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 2 ] && exit 0
exec "$@"
EOF
chmod +x "$dir/killed" "$dir/missing"
for way in killed missing; do
    before=$(date +%s)
    go 4 "$dir/$way" "$ccllab" run "$dir/ring.xml" --size 64K --repeats 1000000
    after=$(date +%s)
    [ $code != 0 ] && [ $code != 124 ] || say "$way: exit code $code"
    [ $((after - before)) -le 20 ] || say "$way: $((after - before)) s"
done

# A launcher that leaves the others alone: they find out by themselves, all of them.
if $open; then
    flags="$flags --enable-recovery"
    go 4 "$dir/killed" "$ccllab" run "$dir/ring.xml" --size 64K --repeats 1000000
    [ "$(grep -c 'process 2 of 4' "$dir/err")" = 3 ] || say "not all others told"
fi
