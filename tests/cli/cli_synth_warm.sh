#!/bin/sh
# ccllab synth and compare --warm: what the former schedule gave is reported and in the file; what
# does not fit is one line and exit code 2.
# Usage: cli_synth_warm.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
refused() { # COMMAND TEXT FILE CLUSTER DEMAND: -c NAME, or a demand file
    what=$1 text=$2 file=$3 cluster=$4
    shift 4
    out="-o $dir/no.json"
    [ "$what" = synth ] || out="-q"
    rc=0
    "$ccllab" "$what" -t "$cluster" "$@" --with alltoallv --warm "$file" $out >"$dir/out" 2>"$dir/err" || rc=$?
    [ $rc -eq 2 ] || say "$what, $text: exit code $rc"
    grep -q "$text" "$dir/err" || say "$what: no '$text' in: $(cat "$dir/err")"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || say "$what, $text: more than a line"
    [ ! -e "$dir/no.json" ] || say "$what, $text: a schedule was written"
}

for tokens in 128 130; do
    "$ccllab" demand moe -t "dgx-h100*2" --tokens $tokens -q -o "$dir/d$tokens.json"
done
"$ccllab" synth -q -t "dgx-h100*2" --demand "$dir/d128.json" --with alltoallv -o "$dir/s.json"
"$ccllab" synth -t "dgx-h100*2" --demand "$dir/d130.json" --with alltoallv --warm "$dir/s.json" -o "$dir/w.json" >"$dir/text"
grep -q '^former schedule: [1-9][0-9]* of [1-9][0-9]* blocks have other bytes' "$dir/text" || say "$(cat "$dir/text")"
grep -q '^transfers: [1-9][0-9]* kept, [0-9]* new, [0-9]* dropped; busiest link' "$dir/text" || say "$(cat "$dir/text")"
grep -q '^links that changed most: n[01]/s0/' "$dir/text" || say "$(cat "$dir/text")"
grep -q 'blocks on ways of the former schedule' "$dir/w.json" || say "not from the former schedule: $(grep origin "$dir/w.json")"
"$ccllab" verify -q "$dir/w.json" >"$dir/out" || say "$(cat "$dir/out")"
"$ccllab" synth -t "dgx-h100*2" --demand "$dir/d128.json" --with alltoallv --warm "$dir/s.json" -o "$dir/same.json" --json >"$dir/json"
for field in blocks_again blocks_changed added dropped; do
    grep -q "\"$field\": 0," "$dir/json" || say "of the same demand: $(grep "\"$field\"" "$dir/json")"
done
grep -v '"origin"' "$dir/s.json" >"$dir/a"
grep -v '"origin"' "$dir/same.json" >"$dir/b"
cmp -s "$dir/a" "$dir/b" || say "the same demand has other transfers"
"$ccllab" compare -q -t "dgx-h100*2" --demand "$dir/d130.json" --with alltoallv --warm "$dir/s.json" --csv >"$dir/out" ||
    say "compare: exit code $?"

"$ccllab" synth -q -t "dgx-h100*2" -c allgather --with ring -o "$dir/ring.json"
"$ccllab" synth -q -t "dgx-h100*2" -c allgather --with ring -o "$dir/ring.xml"
"$ccllab" demand moe -t dgx-h100 --tokens 16 -q -o "$dir/small.json"
"$ccllab" demand moe -t "dgx-h100*2" --tokens 16 --combine -q -o "$dir/combine.json"
echo '{"format": "ccllab-schedule-1"}' >"$dir/empty.json"
for command in synth compare; do
    refused $command 'the former schedule is an allgather' "$dir/ring.json" "dgx-h100*2" --demand "$dir/d130.json"
    refused $command 'wants a schedule (JSON), this is a program' "$dir/ring.xml" "dgx-h100*2" --demand "$dir/d130.json"
    refused $command 'for another cluster: it has 16 GPUs, dgx-h100 has 8' "$dir/s.json" dgx-h100 --demand "$dir/small.json"
    refused $command 'the former schedule copies, the demand sums' "$dir/s.json" "dgx-h100*2" --demand "$dir/combine.json"
    refused $command "unknown format 'ccllab-demand-1'" "$dir/d128.json" "dgx-h100*2" --demand "$dir/d130.json"
    refused $command 'empty.json:1:1: /collective: ' "$dir/empty.json" "dgx-h100*2" --demand "$dir/d130.json"
done
refused synth 'the traffic of an alltoall does not change' "$dir/s.json" "dgx-h100*2" -c alltoall
exit $bad
