#!/bin/sh
# Manual pages tell what --help tells: every command, every option with its letter and value, every exit
# code. Usage: cli_manual_pages.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
text() { sed 's/\\f[BIR]//g; s/\\&//g; s/\\-/-/g' "$1"; } # what a page says, without its markup

"$ccllab" help --commands >"$dir/commands"
"$ccllab" help --man >"$dir/roff"
text "$dir/roff" >"$dir/program"
commands=0
while read -r command <&3; do
    commands=$((commands + 1))
    # shellcheck disable=SC2086
    "$ccllab" help --man $command >"$dir/roff"
    text "$dir/roff" >"$dir/page"
    name=ccllab-$(echo "$command" | tr ' ' '-')
    for section in NAME SYNOPSIS DESCRIPTION "OPTIONS OF EVERY COMMAND" "EXIT STATUS" "SEE ALSO"; do
        grep -qx "\.SH $section" "$dir/page" || say "$name(1) has no section $section"
    done
    grep -q "^$name - ." "$dir/page" || say "$name(1) does not say what it is"
    grep -qF ".BR $name (1)" "$dir/program" || say "ccllab(1) does not name $name(1)"
    # An option's line in the help: "  -t, --topology SPEC" or "      --fail WHAT", then its text.
    # shellcheck disable=SC2086
    "$ccllab" $command --help | sed -n 's/^  \(-[a-z],\)\{0,1\} *\(--[a-z-]*\( [A-Za-z[][^ ]*\)\{0,1\}\).*/\1 \2/p' |
        sed 's/^ *//' >"$dir/options"
    [ "$(wc -l <"$dir/options")" -ge 9 ] || say "$command --help: this test sees too few options"
    while read -r letter option <&4; do
        case $letter in --*) option=$letter ;; *) option="$letter ${option%% *}" ;; esac
        grep -qE -e "^$option( |\[|\$)" "$dir/page" || say "$name(1) lacks $option"
    done 4<"$dir/options"
    for code in 0 2 3 4 70 128+n; do
        grep -qxF ".B $code" "$dir/page" || say "$name(1) does not say what exit code $code is"
    done
done 3<"$dir/commands"
[ "$commands" -ge 22 ] || say "only $commands commands"
for code in 0 1 2 3 4 70 128+n; do
    grep -qxF ".B $code" "$dir/program" || say "ccllab(1) does not say what exit code $code is"
done
"$ccllab" help --man verify | grep -qxF '.B 1' || say "ccllab-verify(1) does not say what exit code 1 is"
"$ccllab" help --man devices | grep -qxF '.B 1' && say "ccllab-devices(1) has an exit code that it never ends with"
rc=0
"$ccllab" help --man simulat 2>"$dir/told" || rc=$?
[ "$rc" -eq 2 ] && grep -q 'did you mean "simulate"' "$dir/told" || say "help --man of no command: $rc"
exit $bad
