#!/bin/sh
# ccllab export --cuda and --hip: what is written, for which file, and what is refused in one line. What the text does
# is tested in tests/runtime. Usage: cli_export_kernel.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
refused() { # code, text, arguments
    want=$1 text=$2 code=0
    shift 2
    "$ccllab" export "$@" >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = "$want" ] || say "export $*: exit code $code, not $want"
    grep -qF -e "$text" "$dir/err" || say "export $*: $(cat "$dir/err")"
    [ "$(wc -l <"$dir/err")" = 1 ] || say "export $*: more than one line"
    [ ! -s "$dir/out" ] || say "export $*: something was written"
}
t='gpus:4 nvswitch=400GB/s'
"$ccllab" synth -t "$t" -c allreduce --with ring --channels 2 -o "$dir/ring.xml" >/dev/null
"$ccllab" synth -t "$t" -c allgather --with ring -o "$dir/gather.json" >/dev/null
"$ccllab" synth -t 'servers:2 gpus:40 nvswitch=400GB/s nics:4x25GB/s' -c alltoall --with direct -o "$dir/many.xml" >/dev/null
"$ccllab" synth -t dgx-h100 -c allreduce --with nvls -o "$dir/nvls.xml" >/dev/null
echo '{"format":"ccllab-demand-1","nranks":2,"chunks":[{"bytes":64,"source":0,"destinations":1,"reduced":false}]}' \
    >"$dir/demand.json"
"$ccllab" synth -t 'gpus:2 nvswitch=400GB/s' --demand "$dir/demand.json" --with direct -o "$dir/demand.xml" >/dev/null

"$ccllab" export "$dir/ring.xml" --cuda "$dir/own.cu"
grep -q 'define CCLLAB_COLLECTIVE ccllab_allreduce' "$dir/own.cu" || say "no function of the collective"
! grep -q nccl.h "$dir/own.cu" || say "--api own includes NCCL"
"$ccllab" export "$dir/ring.xml" --cuda "$dir/nccl.cu" --api nccl --proto LL128 --slots 4 --slice 4K
grep -q '^#include <nccl_device.h>' "$dir/nccl.cu" || say "--api nccl does not include it"
grep -q 'define CCL_SA_PROTOCOL 2u' "$dir/nccl.cu" || say "--proto is lost"
grep -q 'define CCL_SA_SLICE_BYTES 4096u' "$dir/nccl.cu" || say "--slice is lost"
"$ccllab" export "$dir/gather.json" --hip "$dir/own.cpp" -t "$t"
grep -q 'hip/hip_runtime.h' "$dir/own.cpp" || say "--hip does not know HIP"
"$ccllab" export "$dir/ring.xml" --cuda - | cmp -s - "$dir/own.cu" || say "- is not standard output"
! grep -q '#include "' "$dir/own.cu" || say "a file of ours is included"

refused 2 'either --cuda FILE or --hip FILE' "$dir/ring.xml"
refused 2 'either --cuda FILE or --hip FILE' "$dir/ring.xml" --cuda a --hip b
refused 2 '--api nccl is for --cuda' "$dir/ring.xml" --hip a --api nccl
refused 2 '--plans does not go with PROGRAM' "$dir/ring.xml" --cuda a --plans b
refused 2 '--proto goes with PROGRAM' -t dgx-a100 --proto LL
refused 2 '--order goes with PROGRAM' -t dgx-a100 --order hpds
refused 2 'whole 16' "$dir/ring.xml" --cuda a --slice 100
refused 1 'switch connections' "$dir/nvls.xml" --cuda a
refused 1 'a demand' "$dir/demand.xml" --cuda a
refused 1 'thread blocks, but a GPU holds 132' "$dir/many.xml" --cuda a
refused 2 'no library cluster' "$dir/ring.xml" --cuda a -t nothing-like-this
refused 4 'a file' "$dir/ring.xml" --cuda "$dir/no/such/folder/a file"
sed 's/type="rrcs"/type="rcs"/' "$dir/ring.xml" >"$dir/wrong.xml"
refused 1 "$dir/wrong.xml" "$dir/wrong.xml" --cuda a
exit $bad
