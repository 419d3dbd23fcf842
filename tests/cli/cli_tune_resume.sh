#!/bin/sh
# ccllab tune: killed and started again it comes to the same, running nothing twice; Ctrl-C prints what is
# finished; wrong use is told. Usage: cli_tune_resume.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
tune="tune -t heteccl-h20-4+8 -c allgather --sizes 1M,16M -k with=ring,hm,direct,packing -k chunks=auto,1:8"

# All but times of synthesis and evaluation, the front that is drawn against them, and what was resumed.
settled() {
    sed -E 's/"(synth_s|eval_s|lower_s|simulate_s|notebook_s)": [^,}]*/"\1": 0/g; /^  "synthesis": /,/^  \]/d
        s/"resumed": true/"resumed": false/; s/"schedules": .*//' "$1"
}
points() { # points in a notebook: none where its process was killed before anything was in it
    [ -s "$1" ] || { echo 0; return; }
    if "$ccllab" notebook query 'SELECT count(*) FROM point' --csv --notebook "$1" >"$dir/count" 2>"$dir/err"; then
        tail -1 "$dir/count"
    elif grep -q 'an empty file, no lab notebook yet' "$dir/err"; then
        echo 0
    else
        echo -1
    fi
}

# Killed at random moments, in turn after the start and after the first new point in the notebook, so that some come while
# points are tried: what one had finished the next takes over, and the end is that of an unbroken run. With CCL_NIGHTLY
# at 20 moments or more.
budget=300 least=6 among=2
[ -z "${CCL_SANITIZED:-}" ] || budget=150
[ -z "${CCL_NIGHTLY:-}" ] || least=20 among=5
start=$(date +%s%N)
# shellcheck disable=SC2086
"$ccllab" $tune --budget ${budget}runs --notebook none --json >"$dir/whole"
whole_ms=$((($(date +%s%N) - start) / 1000000))
[ "$(grep -c '"settings"' "$dir/whole")" -ge $budget ] || say "too few runs: $(head -c 600 "$dir/whole")"
settled "$dir/whole" >"$dir/want"
below() { # a random time below $1 ms, in seconds
    ms=$(($(od -An -N2 -tu2 /dev/urandom) % $1))
    printf '%d.%03d' $((ms / 1000)) $((ms % 1000))
}
kills=0 had=0 within=0
while [ $kills -lt $least ] || { [ $within -lt $among ] && [ $kills -lt 100 ]; }; do
    # shellcheck disable=SC2086
    "$ccllab" $tune --budget ${budget}runs --notebook "$dir/n.db" --json >"$dir/resumed" 2>&1 &
    pid=$!
    if [ $((kills % 2)) -eq 0 ]; then
        sleep "$(below $((whole_ms / 3 + 20)))"
    else
        while kill -0 $pid 2>/dev/null && [ "$(points "$dir/n.db")" -le "$had" ]; do sleep 0.02; done
        sleep "$(below $((whole_ms / 20 + 1)))"
    fi
    kill -KILL $pid 2>/dev/null || true
    code=0
    wait $pid 2>/dev/null || code=$?
    has=$(points "$dir/n.db")
    [ "$has" -ge "$had" ] || say "kill $kills: $had points were there, now $has: $(cat "$dir/err")"
    if [ $code -eq 137 ]; then
        kills=$((kills + 1))
        [ "$has" -eq "$had" ] || within=$((within + 1))
        had=$has
    elif [ $code -eq 0 ]; then # it was done: once more from the start
        settled "$dir/resumed" | diff "$dir/want" - >"$dir/diff" || say "after $kills kills: another result: $(head -n 4 "$dir/diff")"
        rm -f "$dir"/n.db*
        had=0
    else
        say "kill $kills: exit code $code: $(cat "$dir/resumed")"
        break
    fi
done
[ $within -ge $among ] || say "only $within of $kills kills came while points were tried: the test tests nothing"
# shellcheck disable=SC2086
"$ccllab" $tune --budget ${budget}runs --notebook "$dir/n.db" --json >"$dir/resumed"
settled "$dir/resumed" | diff "$dir/want" - >"$dir/diff" || say "killed and called again: another result: $(head -n 4 "$dir/diff")"
resumed=$(sed -n '/^  "runs"/,$p' "$dir/resumed" | grep -c '"resumed": true' || true)
[ "$resumed" -ge "$had" ] || say "$had points were written down, $resumed were taken from there"
# Once more: all is known.
# shellcheck disable=SC2086
"$ccllab" $tune --budget ${budget}runs --notebook "$dir/n.db" --json >"$dir/again"
[ "$(grep -c '"resumed": false' "$dir/again")" -eq 0 ] || say "a finished point was run again"
grep -q '"schedules": 0,' "$dir/again" || say "schedules were synthesized for nothing"
# The CSV tables and the text exist.
for table in best blocks synthesis knobs runs; do
    # shellcheck disable=SC2086
    [ "$("$ccllab" $tune --budget ${budget}runs --notebook "$dir/n.db" --csv --table $table | wc -l)" -ge 3 ] || say "--table $table is empty"
done
# shellcheck disable=SC2086
"$ccllab" $tune --budget ${budget}runs --notebook "$dir/n.db" | grep -q 'time against thread blocks' || say "no text"

# It ends near the bound, and says how near; a cluster that knows no LL128 is not tuned with it unless that is named.
near() { # words of the first line, options
    words=$1
    shift
    "$ccllab" tune -t 'servers:1 gpus:4 nvswitch=100GB/s,1us' -c allgather --budget 30runs --notebook none "$@" >"$dir/near" 2>"$dir/err"
    head -1 "$dir/near" | grep -qF "$words" || say "$*: $(head -1 "$dir/near")"
}
near 'no size is left; 1 of 1 sizes done: within 25% of their lower bounds' --sizes 64M --gap 25%
near 'the budget is spent; 1 of 2 sizes done: within 25% of their lower bounds' --sizes 1K,64M --gap 25% -k with=ring
if grep -q LL128 "$dir/near" || [ -s "$dir/err" ]; then say "LL128: $(cat "$dir/near" "$dir/err")"; fi
near 'sizes done' -k proto=LL128 --sizes 1K
grep -q 'no transport of this cluster has constants for protocol LL128' "$dir/err" || say "LL128 is not told"

# Ctrl-C: what is finished is printed and written down.
"$ccllab" tune -t heteccl-v100-4x2+8x2 -c allgather --sizes 1M:1G --strategy grid --budget 600s \
    --notebook "$dir/i.db" --json >"$dir/interrupted" 2>"$dir/err" &
pid=$!
waited=0
while [ "$(points "$dir/i.db")" -lt 5 ]; do
    sleep 0.2
    waited=$((waited + 1))
    [ $waited -lt 600 ] || break
done
kill -INT $pid
rc=0
wait $pid || rc=$?
[ $rc -eq 130 ] || say "Ctrl-C: exit code $rc: $(cat "$dir/err")"
grep -q '"stopped": "interrupted"' "$dir/interrupted" || say "Ctrl-C: nothing was printed"

# One process of a launch of which no other comes tunes by itself.
small="tune -q -t dgx-a100 -c allgather --sizes 64K -k with=ring --budget 5runs"
# shellcheck disable=SC2086
{
    SLURM_JOB_ID=1 SLURM_PROCID=0 SLURM_NTASKS=2 "$ccllab" $small --notebook "$dir/alone.db" >"$dir/out" || say "process 0 alone: exit code $?"
    PMI_RANK=0 PMI_SIZE=1 "$ccllab" $small --notebook none >"$dir/out" || say "a launch of one: exit code $?"
    PMI_RANK=1 PMI_SIZE=3 "$ccllab" sweep ${small#tune} --notebook none --bootstrap none >"$dir/out" || say "each by itself: exit code $?"
    cp "$ccllab" "$dir/alone" # where the modules of devices are not
    rc=0
    "$dir/alone" $small --notebook none --replay cuda >"$dir/out" 2>"$dir/err" || rc=$?
    { [ $rc -eq 4 ] && grep -q 'no device cuda: its module' "$dir/err"; } || say "--replay cuda: exit code $rc: $(cat "$dir/err")"
}

refused() { # words that stderr has, options
    words=$1
    shift
    rc=0
    "$ccllab" tune -t heteccl-h20-4+8 -c allgather --notebook none "$@" >"$dir/out" 2>"$dir/err" || rc=$?
    if [ $rc -ne 2 ] || [ "$(wc -l <"$dir/err")" -ne 1 ] || ! grep -qF -e "$words" "$dir/err"; then
        say "$*: exit code $rc: $(cat "$dir/err")"
    fi
}
refused 'option --budget wants a time (60s, 5min) or a number of runs (500runs)' --budget 0runs
refused 'option --budget wants a time (60s, 5min) or a number of runs (500runs)' --budget 0
refused 'option --budget wants a time (60s, 5min) or a number of runs (500runs)' --budget 5parsecs
refused 'option --budget 30: write 30s for seconds, or 30runs for a number of runs' --budget 30
refused 'option --gap wants a percentage' --gap 2
refused 'unknown knob "chanels", did you mean "channels"?' -k chanels=2
refused 'knob proto wants auto or one of Simple,LL,LL128' -k proto=ll128
refused 'knob slice: "64Q" has an unknown size unit' -k slice=64Q
refused 'did you mean "ring"?' -k 'chunks=1:8 when with=rng'
refused '--set slots=0' --set slots=0
refused '--set slise=64K' --set slise=64K
refused 'fewer values, or the strategy halving or random' --strategy grid -k slots=1:64:1.1 -k batches=1:1000:1.1
printf '{"format": "ccllab/space/1", "knobs": {"chunks": "x"}}' >"$dir/space.json"
refused "$dir/space.json:1:50" --space "$dir/space.json"
exit $bad
