#!/bin/sh
# ccllab tune --export: files that the library's readers take; what cannot be had is told.
# Usage: cli_tune_export.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
"$ccllab" tune -t heteccl-h20-4+8 -c allgather --sizes 64K,16M -k with=ring,hm --budget 12runs --notebook none \
    --export "$dir/tuned" -v >"$dir/out" 2>"$dir/err" || say "exit code $?: $(cat "$dir/err")"
n=0
for file in "$dir"/tuned/allgather-12-*.xml; do
    n=$((n + 1))
    "$ccllab" verify --executor rccl "$file" >"$dir/verdict" || say "$file: $(cat "$dir/verdict")"
    [ -s "${file%.xml}.json" ] || say "$file has no plan"
done
[ "$n" -ge 1 ] || say "no programs: $(cat "$dir/err")"
for file in graph-s0.xml graph-s1.xml tuner.csv; do
    [ -s "$dir/tuned/$file" ] || say "no $file: $(cat "$dir/err")"
    grep -q "info: export: $dir/tuned/$file" "$dir/err" || say "$file is not told"
done
# NCCL's tuner knows no alltoall; the rest is written.
"$ccllab" tune -t heteccl-h20-4+8 -c alltoall --sizes 1M -k with=direct --budget 1runs --notebook none \
    --export "$dir/all" >"$dir/out" 2>"$dir/err" || say "alltoall: exit code $?: $(cat "$dir/err")"
grep -q 'no table for the tuner plugin: NCCL asks its tuner for allreduce' "$dir/err" || say "not told: $(cat "$dir/err")"
[ -s "$dir/all/graph-s0.xml" ] || say "alltoall: nothing was written"
# A table that could do harm is refused, with what is missing; the rest is written.
rc=0
"$ccllab" tune -t 'servers:1 gpus:4 nvswitch=300GB/s,1us' -c allgather --sizes 1M -k with=ring --budget 1runs --notebook none \
    --export "$dir/bare" >"$dir/out" 2>"$dir/err" || rc=$?
if [ $rc -ne 1 ] || ! grep -q "does not know a thread block's rate (tb_rate) over" "$dir/err"; then
    say "bare: exit code $rc: $(cat "$dir/err")"
fi
[ ! -e "$dir/bare/tuner.csv" ] || say "bare: a tuner file was written"
ls "$dir"/bare/*.xml >/dev/null || say "bare: no programs"
# A folder that cannot be.
rc=0
"$ccllab" tune -t heteccl-h20-4+8 -c allgather --sizes 1M -k with=hm --budget 1runs --notebook none \
    --export "$dir/no/where" >"$dir/out" 2>"$dir/err" || rc=$?
if [ $rc -ne 4 ] || ! grep -q 'no folder can be made there' "$dir/err"; then say "exit code $rc: $(cat "$dir/err")"; fi
exit $bad
