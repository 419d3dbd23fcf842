#!/bin/sh
# ccllab sweep: edited and further clusters beside the first; what is said of them holds; one plot.
# Usage: cli_sweep_clusters.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
sweep="sweep -t heteccl-h20-4+8 -c allgather --sizes 1M,64M -k with=ring,hm --budget 10runs --notebook none"
# shellcheck disable=SC2086
"$ccllab" $sweep --vary scale:bandwidth:net=0.25,1 --vary fail:gpu:3 --csv 'servers:2 gpus:2 nvswitch=300GB/s nics:2x25GB/s' \
    >"$dir/csv" 2>"$dir/err" || say "exit code $?: $(cat "$dir/err")"
[ "$(wc -l <"$dir/csv")" -eq 11 ] || say "rows: $(cat "$dir/csv")"
column() { # case, size: the field number $3
    grep "^\"\{0,1\}$1\"\{0,1\},[0-9]*,$2," "$dir/csv" | cut -d, -f"$3"
}
# A quarter of the network is slower for large messages, the same network as fast, a GPU less is a GPU less.
awk -v a="$(column scale:bandwidth:net=0.25 67108864 7)" -v b="$(column scale:bandwidth:net=1 67108864 7)" \
    -v n="$(column fail:gpu:3 1048576 2)" -v m="$(column heteccl-h20-4+8 1048576 7)" \
    'BEGIN { exit !(a > 0 && a < 0.8 && b == 1 && n == 11 && m == 1) }' || say "wrong: $(cat "$dir/csv")"
# The best is what tune says.
# shellcheck disable=SC2086
"$ccllab" tune -t heteccl-h20-4+8 -c allgather --sizes 1M,64M -k with=ring,hm --budget 10runs --notebook none --csv --table best >"$dir/tune"
[ "$(column heteccl-h20-4+8 67108864 4)" = "$(grep '^67108864,' "$dir/tune" | cut -d, -f2)" ] || say "tune says $(cat "$dir/tune")"
# shellcheck disable=SC2086
"$ccllab" $sweep --vary scale:bandwidth:net=0.25 -o "$dir/plot.svg" 2>"$dir/err" || say "plot: $(cat "$dir/err")"
[ "$(grep -c 'class="curve"' "$dir/plot.svg")" -eq 4 ] || say "the plot has not two curves of bandwidth and two of time"
# shellcheck disable=SC2086
"$ccllab" $sweep --json >"$dir/json"
grep -q '"schema": "ccllab/sweep/1"' "$dir/json" || say "no schema"
# A degree of degradation is a case each.
# shellcheck disable=SC2086
"$ccllab" $sweep --vary degrade:nic:0=25%,50% --csv >"$dir/csv"
awk -v a="$(column degrade:nic:0=25% 67108864 7)" -v b="$(column degrade:nic:0=50% 67108864 7)" \
    'BEGIN { exit !(a < b && b < 1) }' || say "degrees: $(cat "$dir/csv")"
# Drawn as time over the degree: of each size the best and the bound, at 25, 50 and 100 %, falling as bandwidth grows.
# shellcheck disable=SC2086
"$ccllab" $sweep --vary degrade:nic:0=25%,50% -o "$dir/degrees.svg" 2>"$dir/err" || say "degrees: $(cat "$dir/err")"
[ "$(grep -c 'class="curve"' "$dir/degrees.svg")" -eq 4 ] || say "degrees: not the best and the bound of two sizes"
grep -q 'of what it was' "$dir/degrees.svg" || say "degrees: no axis of shares"
for name in 'degrade:nic:0' 'degrade:nic:0, bound'; do
    grep -F -A1 "<title>$name</title>" "$dir/degrees.svg" | sed -n 's/.* d="M\([^"]*\)".*/\1/p' | tr 'L' '\n' >"$dir/points"
    sed -n 1,3p "$dir/points" | awk 'NR > 1 && !($1 > x && $2 > y) { bad = 1 } { x = $1; y = $2 } END { exit bad || NR != 3 }' ||
        say "degrees, $name: $(cat "$dir/points")"
done
# shellcheck disable=SC2086
"$ccllab" $sweep --vary degrade:nic:0=25%,50% --over size -o "$dir/sizes.svg" 2>"$dir/err" || say "sizes: $(cat "$dir/err")"
[ "$(grep -c 'class="curve"' "$dir/sizes.svg")" -eq 6 ] || say "over size: not three clusters twice"
# NICs twice as fast behind PCIe as tight as they were: nothing changes, and it says what binds.
pcie='servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us'
tight() { # edit, format
    "$ccllab" sweep -t "$pcie" -c allgather --sizes 1M,64M -k with=ring,hm --budget 10runs --notebook none --vary "$1" "$2" \
        >"$dir/tight" 2>"$dir/err" || say "$1: exit code $?: $(cat "$dir/err")"
}
says='scale:bandwidth:net=2 changes nothing: the time that no schedule beats is the same; the links that bind now: s[01]/gpu[0-3]->s[01]/nic[0-3] (pcie, 25GB/s), .*'
tight scale:bandwidth:net=2 --notebook=none
grep -qx "$says" "$dir/tight" || say "net=2: $(cat "$dir/tight")"
tight scale:bandwidth:net=2 --json
grep -q "\"unchanged\": \"$says" "$dir/tight" || say "json, net=2: $(cat "$dir/tight")"
tight scale:bandwidth:net=0.5 --json
[ "$(grep -c '"unchanged": null' "$dir/tight")" -eq 2 ] || say "json, net=0.5: $(cat "$dir/tight")"
refused() { # words that stderr has, edit
    rc=0
    # shellcheck disable=SC2086
    "$ccllab" $sweep --vary "$2" >"$dir/out" 2>"$dir/err" || rc=$?
    if [ $rc -ne 2 ] || [ "$(wc -l <"$dir/err")" -ne 1 ] || ! grep -qF -e "$1" "$dir/err"; then
        say "$2: exit code $rc: $(cat "$dir/err")"
    fi
}
refused 'option --vary nonsense:1: unknown edit' nonsense:1
refused 'option --vary scale:bandwidth:net=x: factor "x"' scale:bandwidth:net=2,x
refused_picture() { # words that stderr has, edits
    rc=0
    words=$1
    shift
    # shellcheck disable=SC2086
    "$ccllab" $sweep "$@" --over value -o "$dir/refused.svg" >"$dir/out" 2>"$dir/err" || rc=$?
    if [ $rc -ne 2 ] || ! grep -qF -e "$words" "$dir/err"; then
        say "$*: exit code $rc: $(cat "$dir/err")"
    fi
}
refused_picture 'needs a --vary with several numbers' --vary fail:gpu:3
refused_picture 'have different units' --vary set:slots=2,4 --vary degrade:nic:0=25%,50%
exit $bad
