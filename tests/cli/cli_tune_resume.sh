#!/bin/sh
# ccllab tune: killed and started again it comes to the same, running nothing twice; Ctrl-C prints what is
# finished; wrong use is told. Usage: cli_tune_resume.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
tune="tune -t heteccl-h20-4+8 -c allgather --sizes 1M,16M -k with=ring,hm,direct,packing -k chunks=auto,1:4"

best() { # JSON of a tuning: best time and settings per size
    sed -n 's/.*"best": {\("size_bytes": [^,]*, "time_s": [^,]*\),.*"settings": \(.*\)}.*/\1 \2/p' "$1"
}
# shellcheck disable=SC2086
"$ccllab" $tune --budget 150 --notebook none --json >"$dir/whole"
[ "$(best "$dir/whole" | wc -l)" -eq 2 ] || say "no best times: $(head -c 600 "$dir/whole")"
for limit in 0.2 0.3 0.5; do
    # shellcheck disable=SC2086
    timeout -s KILL $limit "$ccllab" $tune --budget 150 --notebook "$dir/n.db" >"$dir/killed" 2>&1 || true
done
had=0
[ ! -s "$dir/n.db" ] || had=$("$ccllab" notebook query 'SELECT count(*) FROM point' --csv --notebook "$dir/n.db" | tail -1 | tr -d '\r')
# shellcheck disable=SC2086
"$ccllab" $tune --budget 150 --notebook "$dir/n.db" --json >"$dir/resumed"
[ "$(best "$dir/whole")" = "$(best "$dir/resumed")" ] || say "resumed: $(best "$dir/resumed"), not $(best "$dir/whole")"
resumed=$(sed -n '/^  "runs"/,$p' "$dir/resumed" | grep -c '"resumed": true' || true)
[ "$resumed" -ge "$had" ] || say "$had points were written down, $resumed were taken from there"
# Once more: all is known.
# shellcheck disable=SC2086
"$ccllab" $tune --budget 150 --notebook "$dir/n.db" --json >"$dir/again"
[ "$(grep -c '"resumed": false' "$dir/again")" -eq 0 ] || say "a finished point was run again"
grep -q '"schedules": 0,' "$dir/again" || say "schedules were synthesized for nothing"
# The CSV tables and the text exist.
for table in best blocks synthesis knobs runs; do
    # shellcheck disable=SC2086
    [ "$("$ccllab" $tune --budget 150 --notebook "$dir/n.db" --csv --table $table | wc -l)" -ge 3 ] || say "--table $table is empty"
done
# shellcheck disable=SC2086
"$ccllab" $tune --budget 150 --notebook "$dir/n.db" | grep -q 'time against thread blocks' || say "no text"

# It ends near the bound, and says how near; a cluster that knows no LL128 is not tuned with it unless that is named.
near() { # words of the first line, options
    words=$1
    shift
    "$ccllab" tune -t 'servers:1 gpus:4 nvswitch=100GB/s,1us' -c allgather --budget 30 --notebook none "$@" >"$dir/near" 2>"$dir/err"
    head -1 "$dir/near" | grep -qF "$words" || say "$*: $(head -1 "$dir/near")"
}
near 'no size is left; 1 of 1 sizes done: within 25% of their lower bounds' --sizes 64M --gap 25%
near 'the budget is spent; 1 of 2 sizes done: within 25% of their lower bounds' --sizes 1K,64M --gap 25% -k with=ring
if grep -q LL128 "$dir/near" || [ -s "$dir/err" ]; then say "LL128: $(cat "$dir/near" "$dir/err")"; fi
near 'sizes done' -k proto=LL128 --sizes 1K
grep -q 'no transport of this cluster has constants for protocol LL128' "$dir/err" || say "LL128 is not told"

# Ctrl-C: what is finished is printed and written down.
points() {
    [ ! -s "$dir/i.db" ] || "$ccllab" notebook query 'SELECT count(*) FROM point' --csv --notebook "$dir/i.db" 2>/dev/null |
        tail -1 | tr -dc 0-9
}
"$ccllab" tune -t heteccl-v100-4x2+8x2 -c allgather --sizes 1M:1G --strategy grid --budget 600s \
    --notebook "$dir/i.db" --json >"$dir/interrupted" 2>"$dir/err" &
pid=$!
waited=0
while [ "$(points)" -lt 5 ] 2>/dev/null || [ -z "$(points)" ]; do
    sleep 0.2
    waited=$((waited + 1))
    [ $waited -lt 600 ] || break
done
kill -INT $pid
rc=0
wait $pid || rc=$?
[ $rc -eq 130 ] || say "Ctrl-C: exit code $rc: $(cat "$dir/err")"
grep -q '"stopped": "interrupted"' "$dir/interrupted" || say "Ctrl-C: nothing was printed"

refused() { # words that stderr has, options
    words=$1
    shift
    rc=0
    "$ccllab" tune -t heteccl-h20-4+8 -c allgather --notebook none "$@" >"$dir/out" 2>"$dir/err" || rc=$?
    if [ $rc -ne 2 ] || [ "$(wc -l <"$dir/err")" -ne 1 ] || ! grep -qF -e "$words" "$dir/err"; then
        say "$*: exit code $rc: $(cat "$dir/err")"
    fi
}
refused 'option --budget wants a time (60s) or a number of runs' --budget 0
refused 'option --budget wants a time (60s) or a number of runs' --budget 5parsecs
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
