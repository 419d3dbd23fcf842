#!/bin/sh
# ccllab export --tuner-plugin: the plugin does what the table says when a loader plays NCCL's part, plain and under the thread
# and the address sanitizer; what would do harm is refused; without a compiler the source is there. Usage: PROGRAM SOURCE_DIR
set -eu
ccllab=$1
source=$2
cc=${CC:-cc}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
command -v "$cc" >/dev/null || exit 77

# The rows of a table as the loader reads them; also out of JSON, which must have the same.
rows() { # CSV
    awk -F, 'NR > 1 { split($5, c, " "); print $1, c[1], c[2], $3, $4 }' "$1"
}
loaded() { # name, ranks, nodes, least, most: flags
    name=$1 ranks=$2 nodes=$3 least=$4 most=$5
    shift 5
    hash=$(sed -n 's/.*\.hash = "\(.*\)",/\1/p' "$dir/$name/nccl-tuner-ccllab.c")
    # shellcheck disable=SC2086
    "$cc" -std=c99 -Wall -Wextra -Werror -pedantic -O1 -g -shared -fPIC "$@" -o "$dir/plugin.so" "$dir/$name/nccl-tuner-ccllab.c" ||
        say "$name: the source does not compile with $*"
    "$cc" -std=gnu11 -Wall -Wextra -O1 -g "$@" -o "$dir/loader" "$source/tests/cli/ncclloader.c" -ldl -pthread ||
        say "$name: no loader with $*"
    "$dir/loader" "$dir/plugin.so" "$ranks" "$nodes" "$least" "$most" "$hash" "$dir/$name.rows" >"$dir/out" 2>&1 ||
        say "$name $*: $(cat "$dir/out")"
}
exported() { # name, cluster, options
    name=$1 cluster=$2
    shift 2
    "$ccllab" export -t "$cluster" "$@" --tuner-plugin "$dir/$name" --csv -o "$dir/$name.csv" 2>"$dir/err" || say "$name: $(cat "$dir/err")"
    rows "$dir/$name.csv" >"$dir/$name.rows"
    [ -s "$dir/$name.rows" ] || say "$name: no rows"
}

exported one dgx-h100 -c allreduce,allgather,broadcast --sizes 64K:256M:16
exported two heteccl-a100-4+8 --profile nccl-a100 --sizes 64K:64M:32
[ "$(cut -d' ' -f1 "$dir/two.rows" | sort -u | wc -l)" -eq 5 ] || say "without --collective: $(cat "$dir/two.rows")"
grep -q nvls "$dir/one.rows" || say "NVLS is not looked at: $(cat "$dir/one.rows")"
loaded two 12 2 4 8
# The thread sanitizer does not start everywhere (address space randomisation); then it is skipped.
echo 'int main(void) { return 0; }' >"$dir/empty.c"
for how in thread address,undefined; do
    if "$cc" -fsanitize=$how -o "$dir/empty" "$dir/empty.c" 2>/dev/null && "$dir/empty" 2>/dev/null; then
        loaded one 8 1 8 8 -fsanitize=$how
    fi
done
# What the command compiled itself; it calls nothing that allocates.
hash=$(sed -n 's/.*\.hash = "\(.*\)",/\1/p' "$dir/one/nccl-tuner-ccllab.c")
"$cc" -std=gnu11 -O1 -o "$dir/loader" "$source/tests/cli/ncclloader.c" -ldl -pthread
"$dir/loader" "$dir/one/libnccl-tuner-ccllab.so" 8 1 8 8 "$hash" "$dir/one.rows" >"$dir/out" 2>&1 || say "as compiled: $(cat "$dir/out")"
calls=$(nm -D --undefined-only "$dir/one/libnccl-tuner-ccllab.so" | awk '{ print $2 }' | sed 's/@.*//' | grep -v '^_' | sort | tr '\n' ' ')
[ "$calls" = "getenv strcmp " ] || say "it calls $calls"
# The check itself: a table that says something else is told.
sed '1s/ring\|tree\|nvls/pat/' "$dir/one.rows" >"$dir/wrong.rows"
! "$dir/loader" "$dir/one/libnccl-tuner-ccllab.so" 8 1 8 8 "$hash" "$dir/wrong.rows" >/dev/null 2>&1 || say "a wrong table passes"

# Calls of NCCL as JSON: the names that its selection takes.
"$ccllab" export -t dgx-h100 -c allreduce --sizes 64K:256M:16 --json -o "$dir/calls.json" || say "json: $?"
grep -q '"algSelection": "NVLS_SIMPLE", "forceAlgSelection": 0' "$dir/calls.json" || say "no selection: $(cat "$dir/calls.json")"
grep -q '"function": "ncclAllReduceConfig"' "$dir/calls.json" || say "no function"
"$ccllab" export -t dgx-a100 -c allgather --sizes 1K,4K --json | grep -q '"RING_LL+^RING_LL128"' || say "LL stands for LL128 too"

refused() { # exit code, pattern, arguments
    want=$1 pattern=$2 code=0
    shift 2
    "$ccllab" export "$@" >"$dir/out" 2>"$dir/err" || code=$?
    if [ $code -ne "$want" ] || ! grep -q "$pattern" "$dir/err"; then say "$*: exit code $code: $(cat "$dir/err")"; fi
}
refused 1 'does not know a thread block.s rate (tb_rate) over' -t 'servers:1 gpus:4 nvswitch=300GB/s,1us' -c allreduce --sizes 1M --tuner-plugin "$dir/bare"
[ ! -e "$dir/bare" ] || say "a plugin that could do harm was written"
refused 1 'not for alltoall' -t dgx-a100 -c alltoall --sizes 1M --tuner-plugin "$dir/bare"
refused 2 'ascending order' -t dgx-a100 -c allreduce --sizes 1M,64K
refused 4 'no folder can be made' -t dgx-a100 -c allreduce --sizes 1M --tuner-plugin "$dir/no/where"
# No compiler: the source is written, the line says how.
CC=$dir/nowhere "$ccllab" export -t dgx-a100 -c allreduce --sizes 1M --tuner-plugin "$dir/source" >"$dir/out" 2>"$dir/err" || say "no compiler: $?"
grep -q 'no C compiler.*cc -O2 -shared -fPIC' "$dir/err" || say "not told: $(cat "$dir/err")"
[ -s "$dir/source/nccl-tuner-ccllab.c" ] || say "no source"
exit $bad
