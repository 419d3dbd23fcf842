#!/bin/sh
# ccllab watch: a file that grows, until Ctrl-C and until nothing comes; a folder; what is refused.
# ccllab thresholds: written, and held against logs.
# Usage: cli_watch_follow.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
bad=0
say() { echo "$*"; bad=1; }
expect() { # exit code, command...
    want=$1
    shift
    rc=0
    "$ccllab" "$@" >out 2>err || rc=$?
    [ "$rc" -eq "$want" ] || say "$*: exit code $rc, not $want: $(cat out err)"
}
has() { # file, words
    grep -q -- "$2" "$1" || say "no '$2' in $1: $(cat "$1")"
}
# A call of each of 8 ranks: number, bytes that a rank has, us.
call() {
    for rank in 0 1 2 3 4 5 6 7; do
        printf '{"header": {"id": "0xab", "rank": %d, "n_ranks": 8, "nnodes": 1}, "coll_perf": {"coll": "AllGather", "coll_sn": %d, "coll_msg_size_bytes": %d, "coll_exec_time_us": %d}}\n' $rank "$1" "$2" "$3"
    done
}
# Waits for a file of the program in the background to hold these words; the test fails where it does not come to that.
await() { # file, words
    looks=0
    while ! grep -q -- "$2" "$1" 2>/dev/null; do
        looks=$((looks + 1))
        { kill -0 $pid 2>/dev/null && [ $looks -le 1200 ]; } || { say "no '$2' in $1: $(cat "$1" err 2>/dev/null)"; return; }
        sleep 0.05
    done
}

# Ctrl-C: a table for every change, bad lines skipped, the last one as JSON, exit code 130.
call 1 16777216 420 >a.log
env --default-signal=INT "$ccllab" watch a.log -t dgx-h100 --follow --interval 0.01s >out 2>err &
pid=$!
await out '^128M  *8  *420.00'
await out 'as expected'
echo 'no JSON' >>a.log
await err 'a.log:9:.*skipped'
call 2 16777216 4200 >>a.log
call 3 16777216 4200 >>a.log
await out '^128M  *24  *4200.00.* slow$'
await out '^1 of 1 sizes slow: '
kill -INT $pid || true
rc=0
wait $pid || rc=$?
[ $rc -eq 130 ] || say "after Ctrl-C exit code $rc: $(cat err)"
has out '^1 lines could not be read'

# -o always has the latest; nothing goes to standard output before the end.
env --default-signal=INT "$ccllab" watch a.log -t dgx-h100 --follow --interval 0.01s --json -o now.json >out 2>err &
pid=$!
await now.json '"calls": 24'
call 4 16777216 4200 >>a.log
await now.json '"calls": 32'
kill -INT $pid || true
wait $pid || true
has now.json '"slow_sizes": 1'
[ ! -s out ] || say "with -o there is output: $(cat out)"

# Until nothing comes; the file need not be there yet.
expect 1 watch a.log -t dgx-h100 --follow --idle 0.3s --csv
[ "$(grep -c '^0xab,allgather,8,134217728,32,' out)" = 1 ] || say "not one table: $(cat out)"
expect 0 watch none.log -t dgx-h100 --follow --idle 0.1s

# Once: a folder, and what is refused.
mkdir job
call 1 16777216 420 >job/rank0.jsonl
call 2 1048576 47 >job/rank1.log.1
call 3 16777216 9000 >job/notes.txt
expect 0 watch job -t dgx-h100 --json
has out '"calls": 16'
expect 2 watch a.log -t dgx-h100
has err '^ccllab: a.log:9:'
expect 4 watch none.log -t dgx-h100
: >empty.log
expect 2 watch empty.log -t dgx-h100
has err "empty.log: no calls of NCCL's Inspector"
expect 2 watch job

# Thresholds.
expect 0 thresholds -t dgx-h100 -c allgather --sizes 16M,1G --margin 30% --export accept
has accept/thresholds.csv '^collective,nranks,size_bytes,least_busbw_GBps,'
has accept/thresholds.json '"share": 0.7,'
log='# Collective test starting: all_gather_perf\n# nThread 1 nGpus 8\n'
printf "$log"'134217728 1 half none -1 420 319 279 0\n' >good.log
printf "$log"'134217728 1 half none -1 4200 32 28 0\n4096 1 half none -1 9 0 0 0\n' >slow.log
expect 0 thresholds --check accept good.log
has out '^PASS: all 1 sizes'
expect 1 thresholds --check accept/thresholds.json good.log slow.log
has out '^FAIL: 1 of 2 sizes below the threshold of dgx-h100; 1 others have none'
expect 0 thresholds --check accept job/rank0.jsonl
expect 2 thresholds --check accept
has err 'wants the LOG'
expect 2 thresholds good.log -t dgx-h100
has err 'are held against --check'
expect 2 thresholds -t dgx-h100 --margin 20
has err 'wants a percentage'
expect 2 thresholds -t dgx-h100 --margin 100%
expect 2 thresholds -t dgx-h100 -c allgather,allgather
has err 'stands twice'
echo '{"schema": "ccllab/watch/1"}' >other.json
expect 2 thresholds --check other.json good.log
has err 'other.json:1:'
exit $bad
