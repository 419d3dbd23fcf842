#!/bin/sh
# One rule for profiles: all commands time a cluster with the same constants, and say with which.
# cli_profile_rule.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "$*" >&2
    exit 1
}
member() { # KEY, of JSON with a key a line or in one line: the first number or name
    tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\"\\{0,1\\}\\([^\"]*\\)\"\\{0,1\\} *$/\\1/p" | head -n 1
}
for row in "dgx-h100 nccl-h100" "h20-x8 null"; do
    t=${row% *} profile=${row#* }
    "$ccllab" synth -q -t $t -c allgather --with ring -o ring.json --format json >said || fail "synth on $t"
    "$ccllab" compare -q -t $t -c allgather --sizes 16M --with ring --proto Simple --json >compare.json
    "$ccllab" simulate -q -t $t ring.json --size 16M --json >simulate.json
    "$ccllab" explain -q -t $t ring.json --size 16M --no-what-if --json >explain.json
    "$ccllab" lower -q -t $t ring.json --size 16M --json >lower.json
    "$ccllab" tune -q -t $t -c allgather --sizes 16M -k with=ring -k channels=auto -k chunks=auto -k order=auto \
        -k allocate=auto -k granularity=auto -k proto=auto --notebook none --json >tune.json
    for result in compare simulate explain lower tune; do
        said=$(member profile <$result.json)
        [ "$said" = $profile ] || fail "$result on $t: profile $said, not $profile"
    done
    times=$(for result in compare simulate explain; do member time_s <$result.json; done | sort -u)
    [ "$(echo "$times" | wc -l)" = 1 ] || fail "times of one run on $t differ: $times"
    [ -n "$times" ] || fail "no times on $t"
    echo "$times" >time.$t
done
# The bare model is another one, and asked for by name it is the same one.
bare=$("$ccllab" compare -q -t dgx-h100 --profile none -c allgather --sizes 16M --with ring --proto Simple --json | member time_s)
named=$("$ccllab" compare -q -t dgx-h100 --profile nccl-h100 -c allgather --sizes 16M --with ring --proto Simple --json | member time_s)
[ "$bare" != "$(cat time.dgx-h100)" ] || fail "--profile none changes nothing"
[ "$named" = "$(cat time.dgx-h100)" ] || fail "the profile by name gives $named"
# An edit of a constant holds over a profile.
slow=$("$ccllab" simulate -q -t dgx-h100 --set tb_rate=1GB/s ring.json --size 16M --json | member time_s)
[ "$slow" != "$(cat time.dgx-h100)" ] || fail "--set is lost under a profile"
# What compare chooses explain chooses: protocol and time; the last of what was lowered for Simple.
while read -r t c size name; do
    "$ccllab" compare -q -t "$t" -c $c --sizes $size --with $name --json >compare.json
    "$ccllab" explain -q -t "$t" -c $c --with $name --size $size --no-what-if --json >explain.json
    for key in proto time_s origin; do
        [ "$(member $key <compare.json)" = "$(member $key <explain.json)" ] || fail "$name at $size: explain has another $key"
    done
done <<END
dgx-h100 allgather 64K ring
dgx-h100 allgather 16M ring
gh200-x4*4 allreduce 64K greedy
END
[ "$("$ccllab" compare -q -t dgx-h100 -c allgather --sizes 64K --with ring --json | member proto)" = LL ] || fail "64K is not LL's"
"$ccllab" compare -q -t dgx-h100 -c allgather --sizes 16M --with ring | grep -q '^with profile nccl-h100 (' || fail "no profile in the header"
"$ccllab" compare -q -t h20-x8 -c allgather --sizes 16M --with ring | grep -q '^with the constants of its description' ||
    fail "no description in the header"
