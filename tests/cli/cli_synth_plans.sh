#!/bin/sh
# ccllab synth --format flagcx: a plan per rank, in which what crosses borders fits together and is what
# c2c sends; what plans cannot say is told, and nothing is written.
# Usage: cli_synth_plans.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
plans() { # name collective
    "$ccllab" synth -t hetccl-snu -c "$2" --with c2c --size 1M --format flagcx -o "$dir/$1" >"$dir/out" 2>"$dir/err" ||
        say "$1: exit code $?: $(cat "$dir/err")"
    grep -q "^$dir/$1: $2 by c2c on hetccl-snu: 16 ranks" "$dir/out" || say "$1 is not told: $(cat "$dir/out")"
    r=0
    while [ $r -lt 16 ]; do
        [ -s "$dir/$1_$r.xml" ] || say "$1: no plan of rank $r"
        r=$((r + 1))
    done
    [ "$(ls "$dir/$1"_*.xml | wc -l)" -eq 16 ] || say "$1: more plans than ranks"
    # Of every pair of ranks as much is received as is sent, in whole buffers of nChunks.
    sed -n 's/.*<\(nChunks\|rank\|peerRank\|count\|isRecv\)>\(.*\)<.*/\1 \2/p' "$dir/$1"_*.xml | awk '
        $1 == "nChunks" { if (n && n != $2) print "unlike nChunks"; n = $2 }
        $1 == "rank" { rank = $2 } $1 == "peerRank" { peer = $2 } $1 == "count" { count = $2 }
        $1 == "isRecv" {
            pair = $2 ? peer " to " rank : rank " to " peer
            if ((rank < 8) == (peer < 8)) print pair " does not cross the border"
            left[pair] += $2 ? -count : count
            if ($2) got[rank < 8 ? "NVIDIA" : "AMD"] += count
        }
        END {
            for (pair in left) if (left[pair]) print pair ": " left[pair] " chunks more sent than received"
            printf "%g %g\n", got["NVIDIA"] / n, got["AMD"] / n
        }' >"$dir/crossed"
}
# AllGather: each cluster receives (G - N) m, half of the output; Broadcast: all of it, but the root's none.
plans gather allgather
[ "$(cat "$dir/crossed")" = "0.5 0.5" ] || say "allgather: $(cat "$dir/crossed")"
plans cast broadcast
[ "$(cat "$dir/crossed")" = "0 1" ] || say "broadcast: $(cat "$dir/crossed")"
if [ -z "${CCL_SANITIZED:-}" ]; then # there the two above
    # Sums: half of the data there, summed, and back, and the other half the other way; to the root's cluster; N m.
    plans sums allreduce
    [ "$(cat "$dir/crossed")" = "1 1" ] || say "allreduce: $(cat "$dir/crossed")"
    plans sum reduce
    [ "$(cat "$dir/crossed")" = "1 0" ] || say "reduce: $(cat "$dir/crossed")"
    plans scatter reducescatter
    [ "$(cat "$dir/crossed")" = "0.5 0.5" ] || say "reducescatter: $(cat "$dir/crossed")"
fi

refused() { # exit code, words, arguments
    want=$1 words=$2 rc=0
    shift 2
    "$ccllab" synth "$@" --format flagcx >"$dir/out" 2>"$dir/err" || rc=$?
    if [ $rc -ne "$want" ] || ! grep -q "$words" "$dir/err" || [ "$(wc -l <"$dir/err")" -ne 1 ]; then
        say "$*: exit code $rc: $(cat "$dir/err")"
    fi
    [ -z "$(ls "$dir"/no_* 2>/dev/null)" ] || say "$*: something was written"
}
for kind in alltoall gather scatter; do
    refused 1 "reduce and reducescatter, not of $kind" -t hetccl-snu -c $kind --with c2c -o "$dir/no"
done
refused 2 'a file per rank: -o PREFIX' -t hetccl-snu -c allgather --with c2c
refused 1 'chunk 0 enters the cluster of rank [0-9]* twice' -t hetccl-snu -c allgather --with direct -o "$dir/no"
refused 1 'all GPUs are of one vendor' -t dgx-a100 -c allgather --with ring -o "$dir/no"
refused 4 'cannot create' -t hetccl-snu -c allgather --with c2c -o "$dir/no/where"
exit $bad
