#!/bin/sh
# Help of every command: exit code 0, on stdout, within 80 columns, and it names every option that the
# command takes. Usage: cli_help_columns.sh PROGRAM SOURCE_DIR
# Of the options only the first and the last are tried: unit.cli.options asks the parser for all. With CCL_SANITIZED set,
# what the tests of pages and completion run is run here once, because they are not sanitized themselves, and one
# command in four is checked.
set -eu
ccllab=$1
bad=0
wrong= # what keeps a command from its work
say() { echo "$*"; bad=1; }

"$ccllab" --help >/dev/null
n=0
check() {
    n=$((n + 1))
    [ -z "${CCL_SANITIZED:-}" ] || [ $((n % 4)) -eq 0 ] || return 0
    out=$("$ccllab" "$@" --help 2>&1) || say "ccllab $* --help: exit code $?"
    wide=$(printf '%s\n' "$out" | awk 'length($0) > 80')
    [ -z "$wide" ] || say "ccllab $* --help is wider than 80 columns: $wide"
    case $out in
    "usage: ccllab"*) ;;
    *) say "ccllab $* --help does not begin with its usage" ;;
    esac
    case $out in
    *--json*--csv*--seed*--threads*--progress*--quiet*--verbose*--help*) ;;
    *) say "ccllab $* --help lacks the options of every command" ;;
    esac
    [ -z "${CCL_SANITIZED:-}" ] || "$ccllab" help --man "$@" >/dev/null || say "help --man $*: exit code $?"
    # Each option that the help names is taken (a wrong value is fine, an unknown option is not).
    options=$(printf '%s\n' "$out" | sed -n 's/^ .. \{0,1\}.*\(--[a-z-]*\).*/\1/p' | sort -u)
    for option in $(printf '%s\n' "$options" | sed -n '1p;$p' | sort -u); do
        # shellcheck disable=SC2069
        said=$("$ccllab" "$@" $wrong "$option" 2>&1 >/dev/null </dev/null || true)
        case $said in
        *"unknown option"* | *"does not belong"*) say "ccllab $*: help names $option, which is not taken" ;;
        esac
    done
}
check compare
check bound
check simulate
check explain
check verify
check synth
check lower
check calibrate
check validate
check diagnose
check run
check devices
check doctor
check testbed up
check testbed run
check testbed down
check testbed list
check testbed topology
check draw topology
check draw timeline
check draw busbw
check draw idle
check draw progress
check draw curves
check report
check tune
check sweep
check balance
check failover
check demand moe
check export
check notebook list
check notebook show
check notebook query
check notebook diff
check notebook export
check notebook copy
wrong="--notebook none"
check work
wrong=
check notebook gc
check algos
check topology list
check topology show
check topology expand
check topology here
check topology check
check topology symmetry
[ "$("$ccllab" --help | awk 'length($0) > 80' | wc -l)" -eq 0 ] || say "ccllab --help is wide"
[ "$("$ccllab" topology --help | awk 'length($0) > 80' | wc -l)" -eq 0 ] || say "topology --help is wide"
# Every command that the general help lists is checked above.
listed=$("$ccllab" --help | grep -c '^  [a-z]')
[ "$listed" -eq 49 ] || say "the help lists $listed lines, this test knows 49"
for what in --man '--completion bash' '--completion zsh' '--completion fish' '--markdown lowering' '--markdown runs' '--markdown synthesizers'; do
    # shellcheck disable=SC2086
    [ -z "${CCL_SANITIZED:-}" ] || "$ccllab" help $what >/dev/null || say "help $what: exit code $?"
done
exit $bad
