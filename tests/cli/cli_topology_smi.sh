#!/bin/sh
# Pasted output of nvidia-smi topo -m as a cluster: the times of the library's clusters of the same machines.
# Usage: cli_topology_smi.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
corpus=$2/fuzz/corpus/topology_smi
bad=0
say() { echo "$*"; bad=1; }

time_of() { "$ccllab" simulate -t "$1" -c allreduce --with nccl --size 64M --quiet | grep '^  time '; }
same() { # cluster of the library, matrix
    [ "$(time_of "$1")" = "$(time_of "$2")" ] || say "$1 takes$(time_of "$1"), $2$(time_of "$2")"
}
same dgx-h100 "$corpus/dgx_h100.txt"
same dgx-h100 "$corpus/h_unnamed.txt"
same dgx1-v100 "$corpus/dgx1_v100.txt"
"$ccllab" topology check - <"$corpus/h_unnamed.txt" >/dev/null 2>&1 || say "not from stdin"
"$ccllab" topology show "$corpus/h_unnamed.txt,gpu=B200*2,fabric=rail" 2>/dev/null | grep -q '2 x \[8 x B200' || say "no two servers of B200"
rc=0
"$ccllab" topology show "$corpus/two.txt,gpu=H1000" >/dev/null 2>&1 || rc=$?
[ "$rc" = 2 ] || say "a GPU that is not known: exit code $rc"
exit $bad
