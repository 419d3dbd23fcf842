#!/bin/sh
# ccllab failover: every program in the folder is right, and takes on the damaged cluster what the index says.
# Usage: cli_failover_plans.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
cluster='servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us'
"$ccllab" failover -t "$cluster" -c allreduce --sizes 64K,16M --with ring,greedy --export "$dir/plans" --csv >"$dir/csv" 2>"$dir/err" ||
    say "exit code $?: $(cat "$dir/err")"
[ "$(head -n 1 "$dir/csv" | cut -d, -f1-6)" = kind,edit,alike,nranks,size_bytes,stays_s ] || say "columns: $(head -n 1 "$dir/csv")"
[ "$(wc -l <"$dir/csv")" -eq 13 ] || say "rows: $(cat "$dir/csv")"
grep -q '"schema": "ccllab/failover/1"' "$dir/plans/index.json" || say "index: $(head -n 3 "$dir/plans/index.json")"
count=0
while IFS=, read -r kind edit _ _ size _ _ _ _ _ time _ _ _ _ _ file _; do
    case $kind in
    kind) continue ;;
    server) option=--degrade ;;
    *) option=--fail ;;
    esac
    count=$((count + 1))
    "$ccllab" verify "$dir/plans/$file" >/dev/null || say "$file is wrong"
    got=$("$ccllab" simulate -t "$cluster" $option "${edit#*:}" "$dir/plans/$file" --size "$size" --granularity task --json -q | sed -n 's/.*"time_s": \([^,]*\),.*/\1/p' | head -n 1)
    other=$("$ccllab" simulate -t "$cluster" $option "${edit#*:}" "$dir/plans/$file" --size "$size" --json -q | sed -n 's/.*"time_s": \([^,]*\),.*/\1/p' | head -n 1)
    awk -v a="$got" -v b="$other" -v t="$time" 'BEGIN { exit !(a / t - 1 < 1e-9 && 1 - a / t < 1e-9 || b / t - 1 < 1e-9 && 1 - b / t < 1e-9) }' ||
        say "$edit at $size: $time in the index, $got or $other simulated"
done <"$dir/csv"
[ $count -eq 12 ] || say "$count plans"
"$ccllab" failover -q -t "$cluster" -c allreduce --sizes 16M --with ring --kinds server -o "$dir/page.html"
grep -q 'Of 2 single failures server s0 costs most: allreduce of 16M takes' "$dir/page.html" || say "page: no answer"
refused() { # words that stderr has, options
    words=$1
    shift
    rc=0
    "$ccllab" failover -t "$cluster" -c allreduce "$@" >"$dir/out" 2>"$dir/err" || rc=$?
    if [ $rc -ne 2 ] || [ "$(wc -l <"$dir/err")" -ne 1 ] || ! grep -qF -e "$words" "$dir/err"; then
        say "$*: exit code $rc: $(cat "$dir/err")"
    fi
}
refused '"disk" is none of nic, link, gpu, server' --kinds nic,disk
refused 'unknown synthesizer "rings"' --with rings
exit $bad
