#!/bin/sh
# Every command in a code block marked `sh` of README.md and docs/commands.md runs. Lines that begin with
# "tools/", "cmake" or "sudo" build or install and are left to tools/check. A line ending in "# exit N"
# must end so. Usage: cli_readme_commands.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin"
ln -s "$ccllab" "$dir/bin/ccllab"
PATH=$dir/bin:$PATH
export PATH
cd "$dir"
bad=0
ran=0
for page in README.md docs/commands.md; do
    awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$source/$page" >"$dir/lines"
    while IFS= read -r line <&3; do
        case $line in
        '' | '#'* | tools/* | cmake* | sudo* | git* | cd*) continue ;;
        esac
        want=$(printf '%s\n' "$line" | sed -n 's/.*# exit \([0-9]*\)$/\1/p')
        rc=0
        sh -c "$line" >"$dir/out" 2>"$dir/err" </dev/null || rc=$?
        ran=$((ran + 1))
        if [ "$rc" -ne "${want:-0}" ]; then
            echo "$page: $line: exit code $rc, wanted ${want:-0}"
            cat "$dir/err"
            bad=1
        fi
    done 3<"$dir/lines"
done
[ "$ran" -ge 5 ] || { echo "only $ran commands found: the test does not see them"; bad=1; }
exit $bad
