#!/bin/sh
# Ctrl-C keeps what is finished: compare, tune, sweep, failover and explain print it, say how to go on, and exit with 130.
# Usage: cli_interrupt_keeps.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
big="-t heteccl-h20-4x2+8 -c allreduce"
# A run, interrupted as soon as its progress says that `least` of `total` parts are done.
interrupt() { # least, total, command...
    least=$1
    total=$2
    shift 2
    rm -f "$dir/err" # the last command's progress is not this one's
    # A shell without job control has its children ignore the signal; env makes it the default.
    env --default-signal=INT "$ccllab" "$@" --progress=json -j 2 >"$dir/out" 2>"$dir/err" &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        done=$(sed -n 's/.*"done": \([0-9]*\), "total": '"$total"',.*/\1/p' "$dir/err" 2>/dev/null | sort -n | tail -n 1)
        [ "${done:-0}" -lt "$least" ] || break
        sleep 0.05
    done
    kill -INT $pid 2>/dev/null || say "$*: had ended already"
    rc=0
    wait $pid || rc=$?
    [ $rc -eq 130 ] || say "$*: exit code $rc: $(grep -v '^{' "$dir/err")"
}
ends() { # words of the last line on standard error
    tail -n 1 "$dir/err" | grep -q "^ccllab: interrupted: $1" || say "the last line is $(tail -n 1 "$dir/err")"
}

# cegis takes a hundred times as long as the others, which by then have both sizes, with up to three protocols each.
few='ring,direct,recursive,cegis'
interrupt 9 14 compare $big --sizes 1M,64M --with $few
grep -q '^ *64M  [a-z]' "$dir/out" || say "compare: no winner: $(cat "$dir/out")"
grep -q 'did not take part: cegis: interrupted' "$dir/out" || say "compare: does not say who is missing: $(cat "$dir/out")"
ends '[0-9]* of 8 runs are finished; with --notebook FILE they are kept, and the same command goes on$'
if [ -z "${CCL_SANITIZED:-}" ]; then # there two commands say what is to be seen
    interrupt 9 14 compare $big --sizes 1M,64M --with $few --json
    grep -q '"winner": "[a-z]' "$dir/out" && grep -q '"why_not": "interrupted"' "$dir/out" || say "compare --json: $(head -c 300 "$dir/out")"

    # The notebook has what was finished: the next one begins there.
    interrupt 6 300 tune $big --sizes 1M,64M -k with=$few --budget 300runs --notebook "$dir/n.db"
    # Which contender the first runs hold is the scheduler's choice: any winner of 64M will do.
    grep -Eq '^ *64M .*--with (ring|direct|recursive|cegis)' "$dir/out" || say "tune: nothing: $(cat "$dir/out")"
    ends '[0-9]* runs are finished; the same command goes on from the notebook$'
    interrupt 6 300 tune $big --sizes 1M,64M -k with=$few --budget 300runs --notebook "$dir/n.db"
    grep -Eq ' ([6-9]|[1-9][0-9]+) from the notebook' "$dir/out" || say "tune: starts over: $(head -n 1 "$dir/out")"

    interrupt 6 300 sweep $big --sizes 1M,64M -k with=$few --vary fail:gpu:3 --budget 300runs --notebook none
    grep -q '^ *64M  heteccl-h20-4x2+8 ' "$dir/out" || say "sweep: nothing: $(cat "$dir/out")"
    ends '1 of 2 clusters are tuned, the last one in part; with a notebook the same command goes on$'

    interrupt 2 7 failover -t 'servers:4 gpus:4 nvswitch=450GB/s,1us nics:4x50GB/s,2us' -c allreduce --sizes 64M --with nccl,ring,greedy
    grep -q '^nic .* 64M ' "$dir/out" || say "failover: nothing: $(cat "$dir/out")"
    ends '[1-5] of 6 failures are looked at$'
fi
interrupt 12 '[1-9][0-9]' explain $big --with recursive --size 64M
grep -q '^What would help most, of [0-9]* changes tried' "$dir/out" || say "explain: nothing: $(head -n 3 "$dir/out")"
ends '[0-9]* of [0-9]* changes are tried$'
exit $bad
