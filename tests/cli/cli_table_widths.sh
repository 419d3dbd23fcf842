#!/bin/sh
# Results keep to the terminal's width: no line is wider, no word is broken, nothing is lost.
# Usage: cli_table_widths.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
widths="80 100 120 200"
[ -z "${CCL_SANITIZED:-}" ] || widths="80 120"
words() { tr -s ' ' '\n' | sort; }
# Lines that are no wider than 40 columns can be, with names as long as some links have.
check() { # command...
    env -u COLUMNS "$ccllab" "$@" >"$dir/all" 2>"$dir/err" || say "$*: $(cat "$dir/err")"
    # A folded header is in two words: "time(us)" is "time" and "(us)".
    sed 's/\([^ ]\)(/\1 (/g' "$dir/all" | words | uniq >"$dir/words"
    for columns in $widths; do
        COLUMNS=$columns "$ccllab" "$@" >"$dir/out" 2>/dev/null || say "$*: $?"
        wide=$(awk -v columns=$columns 'length($0) > columns' "$dir/out")
        [ -z "$wide" ] || say "$* is wider than $columns columns: $wide"
        sed 's/\([^ ]\)(/\1 (/g' "$dir/out" | words | uniq >"$dir/some"
        other=$(comm -3 "$dir/words" "$dir/some" | tr -d '\n')
        [ -z "$other" ] || say "$* on $columns columns: other words: $other"
    done
}
check topology list
check topology show 'dgx-h100*2'
check topology symmetry 'dgx-h100*2'
check algos
check bound -t heteccl-h20-4+8 -c allgather,allreduce --size 1G
# What is run comes from a notebook but for the first time.
noted() { # command...
    "$ccllab" "$@" --notebook "$dir/n.db" >"$dir/out" 2>"$dir/err" || say "$*: $(cat "$dir/err")"
    check "$@" --notebook "$dir/n.db"
}
noted compare -t 'dgx-h100*2' -c allreduce --sizes 1M,64M --with nccl,ring,tree,direct,hm
check explain -t dgx-h100 -c allreduce --with nccl --size 64M
check simulate -t 'dgx-h100*2' -c allreduce --with ring --size 1M
noted sweep -t 'dgx-h100*2' -c allgather --vary degrade:nic:0=25%,50% -k with=ring,hm --budget 12runs --sizes 1M,1G
check balance -t hetccl-snu --speeds nvidia=2,amd=1 --total 48
check schema compare
# To a file there is no limit.
COLUMNS=80 "$ccllab" topology show 'dgx-h100*2' -o "$dir/file.txt"
env -u COLUMNS "$ccllab" topology show 'dgx-h100*2' | cmp - "$dir/file.txt" || say "a file has other lines"
exit $bad
