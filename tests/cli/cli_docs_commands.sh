#!/bin/sh
# docs/commands.md has every command in its table and every option of it by its long name: in the command's
# own section, in one of the sections on options that it links to, in "Clusters", "Plugins" or "Options of every
# command". Usage: cli_docs_commands.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
page=$2/docs/commands.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
section() { awk -v head="## $1" '/^## / { on = $0 == head } on' "$page"; }

section Clusters >"$dir/clusters"
section Plugins >>"$dir/clusters"
section "Options of every command" >"$dir/every"
section Lowering >"$dir/lowering"
section Runs >"$dir/runs"
section "Options of synthesizers" >"$dir/synthesizers"
linked() { # files with the sections that a command's own links to
    for link in lowering runs; do
        ! grep -qF "(#$link)" "$dir/own" || echo "$dir/$link"
    done
    ! grep -qF "(#options-of-synthesizers)" "$dir/own" || echo "$dir/synthesizers"
}
"$ccllab" help --commands >"$dir/commands"
lacks() { # which options of a command's help do not stand in these files?
    # shellcheck disable=SC2086
    "$ccllab" $1 --help | sed -n 's/^  .\{0,3\} *--\([a-z-]*\).*/\1/p' | sort -u >"$dir/options"
    [ "$(wc -l <"$dir/options")" -ge 9 ] || say "$1 --help: this test sees too few options"
    shift
    awk 'NR == FNR { option[++n] = $0; next }
        { # every word behind two hyphens; a third one begins it anew
            for (line = $0; match(line, /--[a-z-]+/); line = substr(line, RSTART + RLENGTH)) {
                word = substr(line, RSTART + 2, RLENGTH - 2)
                for (seen[word]; sub(/^-/, "", word);) seen[word]
            }
        }
        END { for (i = 1; i <= n; i++) if (!(option[i] in seen)) print "--" option[i] }' "$dir/options" "$@"
}
while read -r command <&3; do
    grep -qF "| [\`$command\`](#${command%% *}) |" "$page" || say "no row of $command in the table of commands"
    section "${command%% *}" >"$dir/own"
    [ -s "$dir/own" ] || say "no section \"## ${command%% *}\""
    # shellcheck disable=SC2046
    missing=$(lacks "$command" "$dir/own" $(linked) "$dir/clusters" "$dir/every")
    [ -z "$missing" ] || say "docs/commands.md, ${command%% *}: not there of $command:" $missing
done 3<"$dir/commands"
# The check itself: without the command's own section options are missed.
[ -n "$(lacks simulate "$dir/clusters" "$dir/every")" ] || say "missing options are not told"
exit $bad
