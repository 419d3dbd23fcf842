#!/bin/sh
# ccllab tune --replay: the best points run on the machine's cores, ranked before and after; wrong use is
# told. Usage: cli_tune_replay.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
tune() {
    "$ccllab" tune -t 'servers:1 gpus:4 nvswitch=100GB/s,1us' -c allgather --sizes 64K,256K \
        -k with=ring,direct,recursive -k chunks=auto,1:4 --budget 40runs --notebook none "$@"
}
tune --replay host:2 --top 2 --repeats 3 --json >"$dir/json"
[ "$(grep -c '"measured_rank": [1-9]' "$dir/json")" -eq 4 ] || say "not 4 points: $(grep measured_rank "$dir/json")"
grep -q '"name": "links/nvlink/efficiency"' "$dir/json" || say "no constants"
# What was fitted is a profile to tune with.
sed -n 's/^ *"profile": "\(.*\)".*/\1/p' "$dir/json" | sed 's/\\u000a/ /g; s/\\"/"/g' >"$dir/p.json"
tune --profile "$dir/p.json" --csv >"$dir/again" || say "the fitted profile is refused: $(cat "$dir/again")"
[ "$(tune --replay host --top 1 --repeats 1 --csv --table replay | wc -l)" -eq 3 ] || say "no CSV"
# All points that were run in full have a place with what was fitted, from 1 on, those measured their times.
tune --csv --table runs >"$dir/runs"
tune --replay host:2 --top 1 --repeats 3 --csv --table ranks >"$dir/ranks"
[ "$(grep -c 'CCL_OK,false' "$dir/runs")" -eq "$(($(wc -l <"$dir/ranks") - 1))" ] ||
    say "not all are ranked again: $(cat "$dir/ranks")"
[ "$(cut -d, -f1,6 "$dir/ranks" | sort -u | grep -c '^[0-9]*,1$')" -eq 2 ] || say "no first: $(cat "$dir/ranks")"
[ "$(awk -F, 'NR > 1 && $4 != ""' "$dir/ranks" | wc -l)" -eq 2 ] || say "not two measured: $(cat "$dir/ranks")"
# The same as a file: laid over the cluster it is what every point of another tuning is ranked with.
tune --replay host:2 --top 2 --repeats 1 --save-profile "$dir/fitted.json" --json >"$dir/json"
sed -n 's/^ *"profile": "\(.*\)".*/\1/p' "$dir/json" | sed 's/\\u000a/\n/g; s/\\n/\n/g; s/\\"/"/g' | tr -d ' \n' >"$dir/told"
[ "$(tr -d ' \n' <"$dir/fitted.json")" = "$(cat "$dir/told")" ] || say "the file is $(cat "$dir/fitted.json"), not $(cat "$dir/told")"
tune --profile "$dir/fitted.json" --csv >"$dir/fit" && tune --csv >"$dir/plain"
[ "$(cut -d, -f2 "$dir/fit")" != "$(cut -d, -f2 "$dir/plain")" ] || say "the fitted profile changes nothing"
tune --replay host --top 1 --repeats 1 >"$dir/text"
grep -q '^replay on host: 2 of 2 points ran' "$dir/text" || say "no text"
sed -n '/^all points ranked again with these constants$/,$p' "$dir/text" | grep -c -e '--with [a-z]' | grep -qx 2 || say "no best now"
fails() {
    words=$1 code=$2
    shift 2
    got=0
    told=$(tune "$@" 2>&1 >/dev/null) || got=$?
    [ "$got" -eq "$code" ] || say "$*: exit code $got"
    case $told in *"$words"*) ;; *) say "$* tells: $told" ;; esac
}
fails 'host:WORKERS with 1 to 4096' 2 --replay host:0
fails 'wants host, host:WORKERS, cuda or hip' 2 --replay :2
fails '--replay DEVICE is missing' 2 --save-profile "$dir/x"
fails 'does not go with --profile' 2 --save-profile "$dir/x" --replay host --profile "$dir/fitted.json"
fails 'without --replay' 2 --csv --table replay
fails 'without --replay' 2 --csv --table ranks
exit $bad
