#!/bin/sh
# The testbed's commands: what needs no namespaces everywhere; up, list, run, validate, down where they are
# permitted (else that part is left out, with the reason). Usage: cli_testbed_commands.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
name=cli-$$
cleanup() {
    "$ccllab" testbed down "$name" >/dev/null 2>&1 || true
    rm -rf "$dir"
}
trap cleanup EXIT
fail() { echo "$*"; cat "$dir/out" "$dir/err"; exit 1; }
# says CODE TEXT ARGUMENTS: exit code, and one line on stderr that has the text.
says() {
    want=$1 text=$2 rc=0
    shift 2
    "$ccllab" "$@" >"$dir/out" 2>"$dir/err" </dev/null || rc=$?
    [ "$rc" -eq "$want" ] || fail "ccllab $*: exit code $rc, not $want"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail "ccllab $*: not one line"
    grep -qF -- "$text" "$dir/err" || fail "ccllab $*: not \"$text\""
}
gives() {
    rc=0
    "$ccllab" "$@" >"$dir/out" 2>"$dir/err" </dev/null || rc=$?
    [ "$rc" -eq 0 ] || fail "ccllab $*: exit code $rc"
}
mixed='servers:2 gpus:1 nics:1x50GB/s + servers:1 gpus:2 nvswitch=100GB/s nics:1x25GB/s'

says 2 '"testbed" wants up, run, down, list or topology' testbed
says 2 'did you mean "list"?' testbed lsit
says 2 'a testbed is of at least 2' testbed up 'servers:1 gpus:2 nvswitch=100GB/s'
says 2 'a fastest rate of 5000 Mbit/s: 100 to 1000' testbed topology "$mixed" --rate-max 5Gbit
says 2 'option --rate-max' testbed topology "$mixed" --rate-max 5
says 2 'option --rate-max' testbed run "$mixed" ring -c allgather --rate-max fast
says 2 'no testbed "nobody" is up' testbed down nobody
says 2 'testbed name "a/b"' testbed down a/b
says 2 'no --profile' validate --testbed "$mixed" --profile x
gives testbed list --json
grep -q '"schema": "ccllab/testbeds/1"' "$dir/out" || fail "no list"
gives testbed topology "$mixed" --rate-max 500Mbit -o "$dir/emulated.json"
gives topology check "$dir/emulated.json"
gives compare -t "$dir/emulated.json" -c allgather -s 1M --with ring,direct

# Without the right to make namespaces: one line, exit code 4.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null 2>&1 &&
    setpriv --reuid=65534 --regid=65534 --clear-groups "$ccllab" --version >/dev/null 2>&1; then
    rc=0
    setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all "$ccllab" testbed up "$mixed" \
        --name "$name" >"$dir/out" 2>"$dir/err" || rc=$?
    [ "$rc" -eq 4 ] || fail "testbed up as nobody: exit code $rc"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail "testbed up as nobody: not one line"
    grep -q 'needs root' "$dir/err" || fail "testbed up as nobody"
fi

if ! unshare -n true 2>/dev/null || ! unshare -n sh -c 'ip link add b0 type bridge && ip link add v0 type veth &&
    tc qdisc add dev v0 root tbf rate 1mbit burst 10kb limit 10kb' >/dev/null 2>&1; then
    echo "left out: network namespaces, bridges or token buckets are not permitted here"
    exit 77
fi
gives testbed up "$mixed" --rate-max 500Mbit --name "$name"
grep -q "testbed $name of .*: 3 servers, 4 ranks" "$dir/out" || fail "up"
grep -q ' 250.0 *250.0$' "$dir/out" || fail "up: rates"
says 2 'is up already' testbed up "$mixed" --name "$name"
says 2 'its rates are set' testbed run "$name" ring -c allgather --rate-max 500Mbit
gives testbed list
grep -q "^$name " "$dir/out" || fail "list"
gives testbed run "$name" ring -c allgather -s 256K --repeats 2
grep -q '3 processes over tcp' "$dir/out" || fail "run"
grep -q 'right$' "$dir/out" || fail "run: data"
says 2 'a program for 2 ranks, but the testbed has 4' testbed run "$name" "$2/tests/cli/data/allgather_2.xml" -s 64K
gives testbed topology "$name"
printf 'allgather ring 4\nallgather direct 4\n' >"$dir/suite"
gives validate --testbed "$name" -t "$dir/emulated.json" --suite "$dir/suite" --sizes 256K --repeats 2 --json
grep -q '"device": "testbed"' "$dir/out" || fail "validate"
gives testbed down "$name"
says 2 'no testbed' testbed down "$name"
gives testbed list
! grep -q "^$name " "$dir/out" || fail "still listed"
