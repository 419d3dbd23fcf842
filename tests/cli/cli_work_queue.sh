#!/bin/sh
# ccllab work: processes that share a lab notebook in a file come to the result of one, and killing them loses nothing.
# With CCL_NIGHTLY more of each. Usage: cli_work_queue.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$2/tests/cli/data/work.sh"
few=3 much=4
[ -z "${CCL_NIGHTLY:-}" ] || few=100 much=50
with_workers "$dir/w.db" $few 80
two_submitters "$dir/t.db" 80
launched "$dir/l.db"
stopped "$dir/s.db"
forget=forget_file
kills "$dir/k.db" $much

refused() { # words, environment and options
    words=$1
    shift
    rc=0
    env "$@" >"$dir/out" 2>"$dir/err" || rc=$?
    if [ $rc -ne 2 ] || [ "$(wc -l <"$dir/err")" -ne 1 ] || ! grep -qF -e "$words" "$dir/err"; then
        say "$*: exit code $rc: $(cat "$dir/err")"
    fi
}
small="tune -q -t dgx-a100 -c allgather --sizes 64K -k with=ring --budget 5runs"
# shellcheck disable=SC2086
{
    refused 'process 1 of 3 that a launcher started: they share a lab notebook' PMI_RANK=1 PMI_SIZE=3 "$ccllab" $small --notebook none
    refused 'want a lab notebook on a server' OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 "$ccllab" $small --notebook "$dir/w.db"
    env PMI_RANK=1 PMI_SIZE=3 "$ccllab" $small --notebook none --bootstrap none >/dev/null || say "--bootstrap none: exit code $?"
}
refused 'option --lease' "$ccllab" work --notebook "$dir/w.db" --lease 0s
refused 'no work' "$ccllab" work --notebook none
exit $bad
