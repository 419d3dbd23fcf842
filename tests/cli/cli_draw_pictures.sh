#!/bin/sh
# `ccllab draw`: equal bytes from run to run and on any number of threads, all formats, the asked width,
# one line and the right exit code for what is wrong. Usage: cli_draw_pictures.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
data=$2/tests/cli/data
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
bad=0
say() { echo "$*"; bad=1; }
pair='servers:1 gpus:2 nvswitch=300GB/s,1us'

"$ccllab" synth -t heteccl-h20-4+8 -c allgather --with hm --size 16M -q -o hm.xml
heat="draw topology -t heteccl-h20-4+8 --heat hm.xml --size 16M"
line="draw timeline -t heteccl-h20-4+8 hm.xml --size 16M"
for end in svg pdf png; do
    for command in "$heat" "$line" "$line --rows link" "$line --colour chunk --rows block"; do
        # Sanitized, all as SVG, one in the other formats.
        [ -z "${CCL_SANITIZED:-}" ] || [ $end = svg ] || [ "$command" = "$heat" ] || continue
        # shellcheck disable=SC2086
        "$ccllab" $command -j 1 -o "a.$end" && "$ccllab" $command -j 2 -o "b.$end" || say "$command: $?"
        cmp -s "a.$end" "b.$end" || say "$command: $end differs from run to run"
    done
    [ "$end" != svg ] || ! grep -qwF -e "$(hostname)" -e "$(date +%Y-%m-%d)" a.svg || say "an SVG knows host or date"
    [ "$end" != pdf ] || grep -aqF '/CreationDate (20000101000000Z' a.pdf || say "a PDF has another date"
done
# shellcheck disable=SC2086
"$ccllab" $line --width 333 -o w.png
[ "$(od -An -tu1 -j16 -N4 w.png | tr -s ' ')" = " 0 0 1 77" ] || say "w.png is not 333 wide"
grep -q 'width="333"' w.png && say "a PNG is no SVG"
# shellcheck disable=SC2086
"$ccllab" $line --width 333 -o w.svg
grep -q '<svg [^>]*width="333"' w.svg || say "w.svg is not 333 wide"

# Results, read back.
count() { grep -c "<g class=\"$1\">" "$2" || true; }
pics='compare -t heteccl-h20-4+8 -c allgather,allreduce --sizes 1M:16M:4 --with ring,hm,tree'
# shellcheck disable=SC2086
"$ccllab" $pics --json -o compare.json
# shellcheck disable=SC2086
"$ccllab" $pics -o compare.svg
"$ccllab" draw busbw compare.json -o busbw.svg
cmp compare.svg busbw.svg || say "compare -o and draw busbw differ"
[ "$(count plot busbw.svg)" -eq 4 ] && [ "$(count curve busbw.svg)" -eq 10 ] || say "not two plots and their twins, of 2 and 3 curves"
[ "$(count bound busbw.svg)" -eq 4 ] || say "bounds are missing"
"$ccllab" simulate -t heteccl-h20-4+8 hm.xml --size 16M --json -o run.json
"$ccllab" draw idle run.json run.json --rank 5 -o idle.svg
[ "$(count run idle.svg)" -eq 2 ] || say "idle: not two runs"
[ "$(count block idle.svg)" -eq "$((2 * $(grep -c '"rank": 5, "id"' run.json)))" ] || say "idle: blocks are missing"
"$ccllab" synth -t heteccl-h20-4+8 -c allgather --with cegis -q --search-trace trace.jsonl -o cegis.json
"$ccllab" draw progress trace.jsonl -o progress.svg
printf 'tau (us),one (%%),"two, 64M (%%)",one (s)\n1,0,3,0.5\n20,,1.5,0.25\n400,2,0,0.1\n' >curves.csv
"$ccllab" draw curves curves.csv -o curves.svg
[ "$(count plot curves.svg)" -eq 2 ] && [ "$(count curve curves.svg)" -eq 3 ] || say "curves: not two plots, of 2 and 1 curves"
[ "$(count search progress.svg)" -eq 1 ] && [ "$(count best progress.svg)" -eq 1 ] || say "progress: no search"
printf '{"event":"start","side":"gather","steps":3,"bound":3}\n{"event":"begin","side":"gather","steps":3}\n' >odd.jsonl
echo '{"schema": "ccllab/compare/1", "topology": "x", "comparisons": [{"collective": "c"}]}' >odd.json

n=0
refused() { # exit code, part of the one line, command...
    want=$1 text=$2
    shift 2
    n=$((n + 1))
    [ -z "${CCL_SANITIZED:-}" ] || [ $((n % 3)) -eq 0 ] || return 0 # one in three
    rc=0
    "$ccllab" "$@" >out 2>err || rc=$?
    [ "$rc" -eq "$want" ] || say "$*: exit code $rc, not $want"
    [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] || say "$*: more than one line"
    grep -qF -e "$text" err || say "$*: \"$(cat err)\" does not say \"$text\""
    [ ! -e x.svg ] || say "$*: a picture all the same"
}
refused 2 'no file for the picture' draw topology dgx-a100
refused 2 'must end in .svg, .pdf or .png' draw topology dgx-a100 -o x.jpg
refused 2 'must end in .svg, .pdf or .png' draw topology dgx-a100 -o -
refused 2 'does not go with a picture' draw topology dgx-a100 --json -o x.svg
refused 2 '--heat FILE' draw topology dgx-a100 --size 1M -o x.svg
refused 2 'no size given' draw topology -t "$pair" --heat "$data/allgather_2.xml" -o x.svg
refused 2 'must be more than 0' draw topology dgx-a100 --width 0 -o x.svg
refused 2 'too large' draw topology dgx-a100 --width 40000 -o x.png
refused 2 'a program for 2 ranks' draw timeline -t dgx-a100 "$data/allgather_2.xml" --size 1M -o x.svg
refused 1 'invalid: missing: ' draw timeline -t "$pair" "$data/missing_2.xml" --size 1M -o x.svg
refused 1 'deadlock' draw timeline -t "$pair" "$data/deadlock_2.xml" --no-verify --size 1M -o x.svg
refused 2 'no rank 7' draw timeline -t "$pair" "$data/allgather_2.xml" --size 1M --rank 7 -o x.svg
refused 2 'wants a rank or all' draw timeline -t "$pair" "$data/allgather_2.xml" --size 1M --rank x -o x.svg
refused 4 'nosuch.xml' draw timeline -t "$pair" nosuch.xml --size 1M -o x.svg
refused 4 'nosuch/x.svg' draw topology dgx-a100 -o nosuch/x.svg
refused 2 'wants topology, timeline, busbw, idle, progress or curves' draw
refused 2 'run.json:2:13: /schema: "ccllab/simulate/1", but what ccllab compare' draw busbw run.json -o x.svg
refused 2 'compare.json:2:13: /schema: "ccllab/compare/1", but' draw idle compare.json -o x.svg
refused 2 '/comparisons/0' draw busbw odd.json -o x.svg
refused 2 'odd.jsonl:2:10: /event: "begin" is none of' draw progress odd.jsonl -o x.svg
refused 2 'run.json:1:' draw progress run.json -o x.svg
printf 'x,y\n1,2\n1,3\n' >odd.csv
refused 2 'odd.csv:3:1: the axis has "1"; numbers above 0 that ascend are wanted' draw curves odd.csv -o x.svg
printf 'x,y\n1,2\n2,many\n' >odd.csv
refused 2 'odd.csv:3: field 2 is "many"; a number from 0 on, or nothing, is wanted' draw curves odd.csv -o x.svg
printf 'x,y\n1,2,3\n' >odd.csv
refused 2 'odd.csv:2:1: 3 fields, but the headings are 2' draw curves odd.csv -o x.svg
refused 2 'no thread blocks of that rank' draw idle run.json --rank 12 -o x.svg
refused 2 'nothing to work on' draw busbw -o x.svg
exit $bad
