#!/bin/sh
# ccllab tune and sweep under mpirun: with 2 and 4 processes the same as with one; a process that is killed loses nothing
# that is finished, whether the launcher lets the others go on or not. Skipped where mpirun is missing.
# Usage: cli_tune_mpi.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
command -v mpirun >/dev/null 2>&1 || { echo "no mpirun here"; exit 77; }
flags=
open=false
if mpirun --version | grep -q 'Open MPI'; then
    flags="--allow-run-as-root --oversubscribe"
    open=true
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
say() { echo "$*"; cat "$dir/err"; exit 1; }
tune="tune -t heteccl-h20-4+8 -c allgather --sizes 1M,16M -k with=ring,hm,direct -k chunks=auto,1:4 --budget 80runs"
go() { # processes, launcher's flags, program...: the launcher's exit code in $code
    n=$1 more=$2
    shift 2
    code=0
    # shellcheck disable=SC2086
    timeout 120 mpirun $flags $more -n "$n" "$@" >"$dir/out" 2>"$dir/err" || code=$?
}
# All but times of synthesis and evaluation, and the front that is drawn against them.
plain() { sed -E 's/"(synth_s|eval_s|lower_s|simulate_s|notebook_s)": [^,}]*/"\1": 0/g; /^  "synthesis": /,/^  \]/d' "$1"; }
rows() { "$ccllab" notebook query 'SELECT count(*) FROM point' --csv --notebook "$1" | tail -1 | tr -dc 0-9; }

# shellcheck disable=SC2086
"$ccllab" $tune --notebook none --json >"$dir/one"
plain "$dir/one" >"$dir/want"
[ "$(grep -c '"settings"' "$dir/want")" -ge 80 ] || say "too few runs to compare"
for n in 2 4; do
    # shellcheck disable=SC2086
    go $n "" "$ccllab" $tune --notebook "$dir/$n.db" --json
    [ $code = 0 ] || say "$n processes: exit code $code"
    plain "$dir/out" | cmp -s - "$dir/want" || say "$n processes: another result"
    [ "$(rows "$dir/$n.db")" -ge 80 ] || say "$n processes: not all was written down"
done

sweep="sweep -t heteccl-h20-4+8 -c allgather --sizes 1M,16M --vary scale:bandwidth:net=0.5,2 -k with=ring,hm -k chunks=auto,1:4 --budget 30runs"
# shellcheck disable=SC2086
"$ccllab" $sweep --notebook none --json >"$dir/want"
# shellcheck disable=SC2086
go 3 "" "$ccllab" $sweep --notebook "$dir/sweep.db" --json
[ $code = 0 ] || say "sweep: exit code $code"
cmp -s "$dir/out" "$dir/want" || say "sweep: another result"
[ "$(rows "$dir/sweep.db")" -ge 90 ] || say "sweep: not all was written down"

# A worker, whichever, is killed when the notebook has so many points, whenever that is.
draw() { echo $(($(od -An -N2 -tu2 /dev/urandom) % $1)); } # 0 ... N - 1
choose() {
    victim=$((1 + $(draw 2)))
    moment=$((5 + $(draw 100)))
    export victim moment
}
cat >"$dir/killed" <<EOF
#!/bin/sh
if [ "\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-}}" = "\$victim" ]; then
    "\$@" &
    while kill -0 \$! 2>/dev/null; do
        n=\$("$ccllab" notebook query 'SELECT count(*) FROM point' --csv --notebook "$dir/k.db" 2>/dev/null | tail -1 | tr -dc 0-9)
        [ "\${n:-0}" -lt "\$moment" ] || { kill -9 \$! && : >"$dir/struck"; break; }
    done
    wait \$! || exit 0
    exit
fi
exec "\$@"
EOF
chmod +x "$dir/killed"
long=$(echo "$tune" | sed 's/--budget 80runs/--budget 300runs/; s/=ring/=packing,ring/')
choose
# shellcheck disable=SC2086
go 3 "" "$dir/killed" "$ccllab" $long --notebook "$dir/k.db" --json
[ $code != 124 ] || say "killed: the others hang"
[ -f "$dir/struck" ] || say "nobody was killed"
had=$(rows "$dir/k.db")
[ "$had" -ge "$moment" ] || say "process $victim killed at $moment points: only $had are there"
# shellcheck disable=SC2086
"$ccllab" $long --notebook "$dir/k.db" --json >"$dir/resumed"
# shellcheck disable=SC2086
"$ccllab" $long --notebook none --json >"$dir/one"
settled() { plain "$1" | sed 's/"resumed": true/"resumed": false/; s/"schedules": .*//'; } # resumed or not
settled "$dir/one" >"$dir/want"
settled "$dir/resumed" | cmp -s - "$dir/want" || say "killed and called again: another result"
[ "$(grep -c '"resumed": true' "$dir/resumed")" -ge "$had" ] || say "killed: a finished point was run again"

# A launcher that leaves the others alone: they finish.
if $open; then
    rm -f "$dir/k.db" "$dir/struck"
    choose
    # shellcheck disable=SC2086
    go 3 --enable-recovery "$dir/killed" "$ccllab" $long --notebook "$dir/k.db" --json
    [ -f "$dir/struck" ] || say "recovery: nobody was killed"
    settled "$dir/out" | cmp -s - "$dir/want" || say "recovery: another result"
fi
