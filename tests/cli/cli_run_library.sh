#!/bin/sh
# A collective by a vendor's library beside the program (run --with-ccl), on the fake devices of tests/runtime: what is printed,
# one line where there is none that fits, wrong data by the library. Usage: cli_run_library.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
program=$2/tests/cli/data/allgather_2.xml
fakes=$(dirname "$ccllab")/../tests/runtime
[ -f "$fakes/nccl_good/libnccl.so.2" ] || { echo "no fake library here"; exit 77; }
export CCL_DEVICE_PATH="$fakes/gpu:$fakes/nccl_good" CCL_TEST_DEVICES=2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
say() { echo "$*"; cat "$dir/out" "$dir/err"; exit 1; }
go() { # options...: exit code in $code
    code=0
    "$ccllab" run "$program" --repeats 3 "$@" >"$dir/out" 2>"$dir/err" || code=$?
}

go --device cuda --sizes 4K:64K:4 --with-ccl auto
[ $code = 0 ] || say "exit code $code"
grep -q '^beside nccl 2.19.4: medians, library / program$' "$dir/out" || say "not beside nccl"
[ "$(grep -c 'right$' "$dir/out")" = 6 ] || say "not three runs of both"
[ ! -s "$dir/err" ] || say "said something"

go --device hip --size 4K --with-ccl rccl --ranks processes --json
[ $code = 0 ] || say "exit code $code"
grep -q '"name": "rccl 2.19.4"' "$dir/out" || say "no rccl in the result"
grep -q '"library": null' "$dir/out" && say "null in the result"

# The program alone, and one line.
alone() { # text options...
    text=$1
    shift
    go --sizes 4K:64K:4 "$@"
    [ $code = 0 ] || say "exit code $code"
    [ "$(wc -l <"$dir/err")" = 1 ] && grep -q "$text.*: the program alone" "$dir/err" || say "not one line: $text"
    [ "$(grep -c 'right$' "$dir/out")" = 3 ] || say "not three runs"
}
alone 'rccl runs on hip devices, this run is on cuda' --device cuda --with-ccl rccl
alone 'nccl runs on cuda devices, this run is on host' --with-ccl auto
CCL_DEVICE_PATH="$fakes/gpu:$fakes/nccl_old" alone 'libnccl.so.2 has no ncclSend' --device cuda --with-ccl nccl
CCL_TEST_DEVICES=1 alone 'process 0 has 2 ranks on 1' --device cuda --with-ccl nccl
go --size 4K --device cuda
grep -q 'beside' "$dir/out" && say "a library that nobody asked for"

export CCL_TEST_NCCL_FAULT=wrong
go --size 4K --device cuda --with-ccl nccl
[ $code = 1 ] || say "exit code $code with wrong data"
grep -q 'by nccl 2.19.4: wrong data in run 0: rank 0' "$dir/out" || say "wrong data not told"
[ "$(grep -c 'right$' "$dir/out")" = 1 ] || say "the program's data are not right"

export CCL_TEST_NCCL_FAULT=hang
go --size 4K --device cuda --with-ccl nccl --watchdog 200ms
[ $code = 4 ] || say "exit code $code when the library hangs"
grep -q 'nccl was not done with allgather after 0.2 s' "$dir/err" || say "hang not told"

# Inside clusters only (--hom-ccl): who ran what, and the data are right across the border.
unset CCL_TEST_NCCL_FAULT
export CCL_TEST_DEVICES=4
cluster='servers:1 gpus:2 nvswitch=200GB/s,1us nics:1x25GB/s,2us model=A + servers:1 gpus:2 nvswitch=100GB/s,1us nics:1x25GB/s,2us model=B'
"$ccllab" synth -t "$cluster" -c allgather --with c2c -o "$dir/c2c.json" >/dev/null
"$ccllab" synth -t "$cluster" -c allgather --with c2c --granularity stage --stages phase --format xml -o "$dir/c2c.xml" >/dev/null
"$ccllab" synth -t "$cluster" -c allgather --with ring -o "$dir/ring.json" >/dev/null
inside() { # options...
    program=$1
    shift
    go --ranks processes --hom-ccl auto "$@"
    [ $code = 0 ] || say "exit code $code"
    [ "$(grep -c -e 'right$' -e '"wrong_items": 0' "$dir/out")" = 1 ] || say "not one run with right data"
}
for form in json xml; do
    inside "$dir/c2c.$form" --size 64K --device 'cuda*2,hip*2'
    [ ! -s "$dir/err" ] || say "said something"
    grep -q '^  ranks 0 to 1 on cuda; start by nccl 2.19.4 (1 allgather: 16K); end by nccl 2.19.4 (1 allgather: 16K)$' "$dir/out" ||
        say "not what nccl did"
    grep -q '^  ranks 2 to 3 on hip; start by rccl 2.19.4 ' "$dir/out" || say "not what rccl did"
done
inside "$dir/c2c.json" --size 64K --device 'cuda*2,host*2' --json
grep -q '"by": "nccl 2.19.4", "why": null, "allgather": 1,' "$dir/out" || say "no step by nccl"
grep -q '"by": "program", "why": "nccl runs on cuda devices, not on host"' "$dir/out" || say "no step by the program"
inside "$dir/ring.json" --size 64K --device 'cuda*2,hip*2'
grep -q 'no stages before or after .*: the program alone' "$dir/err" || say "not one line for a ring"
