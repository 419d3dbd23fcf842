#!/bin/sh
# synth, compare and tune under five limits of memory each, from just enough to start to enough for all: none ends by a
# signal, each ends with the exit code of docs/exit-codes.md and at most one line that is not a warning, files and the
# notebook are whole. With CCL_NIGHTLY under ten limits. Usage: cli_memory_limits.sh PROGRAM SOURCE_DIR
set -eu
[ -z "${CCL_SANITIZED:-}" ] || exit 77 # sanitizers need terabytes of address space
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
ulimit -c 0
last=4
[ -z "${CCL_NIGHTLY:-}" ] || last=9

limited() { # kilobytes, words of the command; leaves $rc, $dir/out and $dir/err
    kilobytes=$1
    shift
    rc=0
    (ulimit -v "$kilobytes" && exec "$ccllab" "$@") >"$dir/out" 2>"$dir/err" || rc=$?
}
complete() { # as limited: did it do all of it?
    rm -f "$dir"/made.json "$dir"/n.db*
    limited "$@"
    [ $rc -eq 0 ] && [ ! -s "$dir/err" ]
}
least() { # within how many kilobytes, too few of them, enough of them, words: prints the least that are enough
    within=$1 few=$2 enough=$3
    shift 3
    while [ $((enough - few)) -gt "$within" ]; do
        middle=$(((few + enough) / 2))
        if complete $middle "$@"; then enough=$middle; else few=$middle; fi
    done
    echo "$enough"
}
start=$(least 64 0 524288 topology show heteccl-h20-4+8)
most=$((start + 65536))

lines() { grep -vc '^ccllab: warning: out of memory: ' "$dir/err" || true; }
check() { # words: one run under a limit
    case $rc in
    0) [ "$(lines)" -eq 0 ] ;;
    3) [ "$(lines)" -le 1 ] ;;
    4) [ "$(wc -l <"$dir/err")" -eq 1 ] && grep -q 'out of memory' "$dir/err" ;;
    *) false ;;
    esac || say "$* with $kilobytes KiB: exit code $rc: $(cat "$dir/err")"
    if [ -f "$dir/made.json" ]; then
        [ $rc -ne 4 ] || say "$* with $kilobytes KiB: failed, and left a file"
        "$ccllab" verify "$dir/made.json" >"$dir/out" 2>&1 || say "$* with $kilobytes KiB: $(cat "$dir/out")"
    fi
    if [ -s "$dir/n.db" ]; then
        { [ "$("$ccllab" notebook query 'PRAGMA integrity_check' --csv --notebook "$dir/n.db" 2>"$dir/out" | tail -1)" = ok ] &&
            "$ccllab" notebook list --notebook "$dir/n.db" >"$dir/out" 2>&1; } ||
            { [ $rc -eq 4 ] && grep -q 'an empty file, no lab notebook yet' "$dir/out"; } || # memory ended before its tables were made
            say "$* with $kilobytes KiB: the notebook is broken: $(cat "$dir/out")"
    fi
}
attack() { # words
    echo "start $start KiB: $*"
    complete $most "$@" || say "$* with $most KiB: exit code $rc: $(cat "$dir/err")"
    enough=$(least 128 "$start" $most "$@")
    short=0
    for i in $(seq 0 $last); do
        complete $((start + 64 + i * (enough - start) / last)) "$@" || short=$((short + 1))
        check "$@"
        echo "  $kilobytes KiB: exit code $rc $(cut -c1-90 "$dir/err" | head -1)"
    done
    [ $short -ge 2 ] || say "$*: it had memory enough at $((last + 1 - short)) of $((last + 1)) limits: the test tests nothing"
}
small='servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us fabric=rail'
attack synth -t heteccl-h20-4+8 -c allreduce --with sketch -o "$dir/made.json"
attack compare -t "$small" -c allgather --sizes 1M --with ring,sketch --notebook "$dir/n.db"
attack tune -t "$small" -c allreduce --sizes 1M -k with=ring,hm,sketch --budget 6runs --notebook "$dir/n.db"
exit $bad
