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
    grep -qF ".BR $name (1)" "$dir/program" || say "ccllab(1) does not name $name(1)"
    # An option's line in the help: "  -t, --topology SPEC" or "      --fail WHAT", then its text.
    # shellcheck disable=SC2086
    "$ccllab" $command --help | sed -n 's/^  \(-[a-z],\)\{0,1\} *\(--[a-z-]*\( [A-Za-z[][^ ]*\)\{0,1\}\).*/\1 \2/p' |
        sed 's/^ *//' >"$dir/options"
    [ "$(wc -l <"$dir/options")" -ge 9 ] || say "$command --help: this test sees too few options"
    missing=$(awk -v name="$name" '
        NR == FNR { wanted[++n] = $1 ~ /^--/ ? $0 : $1 " " $2; next }
        { line[$0] }
        index($0, name " - ") == 1 && length($0) > length(name) + 3 { what = 1 }
        { for (i = 1; i <= n; i++) if (index($0, wanted[i]) == 1 && substr($0, length(wanted[i]) + 1, 1) ~ /^[ []?$/) there[i] }
        END {
            if (!what) print "does not say what it is"
            split("NAME,SYNOPSIS,DESCRIPTION,OPTIONS OF EVERY COMMAND,EXIT STATUS,SEE ALSO", section, ",")
            for (i = 1; i <= 6; i++) if (!((".SH " section[i]) in line)) print "has no section " section[i]
            for (i = 1; i <= n; i++) if (!(i in there)) print "lacks " wanted[i]
            split("0 2 3 4 70 128+n", code, " ")
            for (i = 1; i <= 6; i++) if (!((".B " code[i]) in line)) print "does not say what exit code " code[i] " is"
        }' "$dir/options" "$dir/page")
    [ -z "$missing" ] || say "$name(1) $missing"
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
