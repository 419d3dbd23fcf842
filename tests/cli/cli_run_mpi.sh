#!/bin/sh
# Jobs that find each other by MPI: several runs in one job; a process that is killed, and one that fails before it
# comes, end it within seconds. Skipped where the module or mpirun is missing.
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
    timeout 120 mpirun $flags -n "$n" "$@" >"$dir/out" 2>"$dir/err" || code=$?
}

go 2 "$ccllab" run "$program" --sizes 4K:64K:4
[ $code = 0 ] || say "exit code $code"
[ "$(grep -c '2 processes over shm' "$dir/out")" = 1 ] || say "process 0 alone should print"
[ "$(grep -c 'right$' "$dir/out")" = 3 ] || say "not three runs"

"$ccllab" synth --topology 'servers:1 gpus:8 nvswitch=300GB/s,1us' --collective allreduce --with ring --size 1M \
    -o "$dir/ring.xml" >/dev/null
go 4 "$ccllab" run "$dir/ring.xml" --size 64K --bootstrap mpi --json
[ $code = 0 ] || say "exit code $code"
grep -q '"processes": 4' "$dir/out" || say "not 4 processes"

go 3 "$ccllab" run "$program" --size 64K # more processes than ranks
[ $code != 0 ] || say "3 processes of 2 ranks"
grep -q '3 processes for 2 ranks' "$dir/err" || say "not told why"

# One rank of the launcher's is in one of these. It is killed in a run: when it has worked for half a second.
cat >"$dir/killed" <<EOF
#!/bin/sh
if [ "\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-}}" = 2 ]; then
    "\$@" &
    while kill -0 \$! && [ "\$(awk '{print \$14 + \$15}' /proc/\$!/stat)" -lt 50 ]; do sleep 0.1; done
    date +%s >"$dir/when"
    kill -9 \$!
    wait \$! || exit 0
fi
exec "\$@"
EOF
cat >"$dir/missing" <<EOF
#!/bin/sh
[ "\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-}}" = 2 ] && { date +%s >"$dir/when"; exit 4; }
exec "\$@"
EOF
chmod +x "$dir/killed" "$dir/missing"
struck() { # way: the job ends soon, with an error
    go 4 "$dir/$1" "$ccllab" run "$dir/ring.xml" --size 64K --repeats 1000000
    late=$(($(date +%s) - $(cat "$dir/when")))
    [ $code != 0 ] && [ $code != 124 ] || say "$1: exit code $code"
    [ $late -le 30 ] || say "$1: $late s"
}
struck killed
struck missing

# A launcher that leaves the others alone: they find out by themselves, all of them.
if $open; then
    flags="$flags --enable-recovery"
    go 4 "$dir/killed" "$ccllab" run "$dir/ring.xml" --size 64K --repeats 1000000
    [ $code != 124 ] || say "killed: the others go on"
    [ "$(grep -c 'process 2 of 4' "$dir/err")" = 3 ] || say "not all others told"
fi
