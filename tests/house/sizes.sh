#!/bin/sh
# No source file is longer than 600 lines, no function outside tests longer than 60, no folder has more than 26 files:
# what is larger holds two topics and is split. Exceptions have a name and a reason, and go when they are not needed.
# Usage: sizes.sh SOURCE-FOLDER
set -eu
source=$1
most_lines=600
most_files=26
most_body=60
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }

# Files, folders and functions (PATH:NAME) that may be larger, a tab, the reason.
cat >"$dir/allowed" <<'END'
bench/cases/synth_links.c:bench	one table of cases and its loop
lower/blocks/state.c:sort_steps	one topological sort: its queue frees three kinds of successors
sim/fold_run.c:ccl_i_fold_tables	one table after the other
sim/program.c:advance	the state machine of a thread block: its phases are read together
sim/setup.c:make_work	one loop over steps: each field follows from those before it
synth/packing/swap.c:ccl_i_pack_swap	two lines more, for the arrays of a search; its file has no room for another function
synth/sketch/choose.c	the policy of sketch: its passes and their constants are read together
synth/cegis/cegis.c	the settings that cegis tries: what it shares with z3.c is in files of its own already
tests/cli	one script for each command and kind of output
tests/cli/cli_json_shapes.c	tables: the fields of every output
tests/runtime	one test for each transport, device and fault
tests/schedule/unit_verify.c	one small program or schedule for each fault that the verifier must find
tests/search	one test for each search, its stores and what it exports
tests/sim/naive.h	a second simulator, written to be read from top to bottom beside docs/model.md
tests/synth	one test for each synthesizer and property
tests/synth/unit_sketch.c	clusters worked out by hand, which share one fixture
topologies/clusters	data: one file for each published cluster
topologies/servers	data: one file for each server
END

# What is too large below FOLDERS, one line "PATH<tab>what" each.
too_large() {
    find "$@" -type f \( -name '*.c' -o -name '*.h' \) | sort | while read -r file; do
        lines=$(wc -l <"$file")
        [ "$lines" -le "$most_lines" ] || printf '%s\t%s lines, %s are the most\n' "$file" "$lines" "$most_lines"
    done
    find "$@" -type f | sed 's,/[^/]*$,,' | sort | uniq -c | awk -v most="$most_files" '
        $1 > most { print $2 "\t" $1 " files, " most " are the most" }'
}

# Functions below FOLDERS with too many lines from the one with the opening brace to that with the closing one.
too_long() {
    find "$@" -type f \( -name '*.c' -o -name '*.h' \) -exec awk -v most="$most_body" '
        FNR == 1 { name = "" }
        /^[A-Za-z_].*\(/ && !/[;}]$/ {
            name = $0
            sub(/\(.*/, "", name)
            sub(/.*[ *]/, "", name)
            start = 0
        }
        name != "" && !start && /\{( *\/\*.*)?$/ { start = FNR }
        /^\}/ {
            if (name != "" && start && FNR - start + 1 > most)
                print FILENAME ":" name "\t" FNR - start + 1 " lines, " most " are the most"
            name = ""
        }' {} +
}

# Those that are not allowed, and exceptions that are not needed.
check() { # what too_large() found
    awk -F '\t' -v allowed="$dir/allowed" '
        BEGIN { while ((getline line <allowed) > 0) { split(line, part, "\t"); reason[part[1]] = part[2]; n[part[1]] } }
        $1 in n { seen[$1]; next }
        { print $1 ": " $2 }
        END {
            for (path in n) {
                if (!(path in seen)) print "not too large any more, so no exception: " path
                if (reason[path] == "") print "an exception without a reason: " path
            }
        }' "$1"
}

# The check itself: one line or one file too much fails, as much as may be passes, an idle exception fails.
mkdir -p "$dir/tree/long" "$dir/tree/full" "$dir/tree/right"
yes 'int x;' | head -n $((most_lines + 1)) >"$dir/tree/long/wrong.c"
cp "$dir/tree/long/wrong.c" "$dir/tree/long/wrong.h"
yes 'int x;' | head -n $most_lines >"$dir/tree/right/right.c"
i=0
while [ $i -le $most_files ]; do
    : >"$dir/tree/full/$i.c"
    [ $i -eq $most_files ] || [ $i -eq 0 ] || : >"$dir/tree/right/$i.c"
    i=$((i + 1))
done
for n in $((most_body - 2)) $((most_body - 1)); do
    printf 'static int f_%s(int a,\n    int b) {\n' "$n"
    yes '    a++;' | head -n "$n"
    printf '}\n\nstatic int g(int a) { return a; }\n\nstatic const int t[] = {1,\n'
    yes '    2,' | head -n $((most_body + 1))
    printf '};\n'
done >"$dir/tree/right/long.c"
too_long "$dir/tree" >"$dir/found"
[ "$(cat "$dir/found")" = "$dir/tree/right/long.c:f_59	61 lines, 60 are the most" ] ||
    say "a long function passes, or another is refused: $(cat "$dir/found")"
rm "$dir/tree/right/long.c"
mv "$dir/allowed" "$dir/all"
: >"$dir/allowed"
too_large "$dir/tree" >"$dir/found"
[ "$(check "$dir/found" | wc -l)" -eq 3 ] || say "what is too large passes, or what is not is refused: $(cat "$dir/found")"
printf '%s\treason\n' "$dir/tree/long/wrong.c" "$dir/tree/long/wrong.h" "$dir/tree/full" >"$dir/allowed"
[ -z "$(check "$dir/found")" ] || say "an exception does not count: $(check "$dir/found")"
printf '%s\t\n%s\treason\n' "$dir/tree/full" "$dir/tree/right" >"$dir/allowed"
[ "$(check "$dir/found" | wc -l)" -eq 4 ] || say "an idle exception, or one without a reason, passes"
mv "$dir/all" "$dir/allowed"

cd "$source"
modules=$(sed -n 's/^set(CCL_MODULES \(.*\))$/\1/p' CMakeLists.txt)
# shellcheck disable=SC2086
too_large $modules cli tests fuzz bench examples >"$dir/found"
# shellcheck disable=SC2086
too_long $modules cli fuzz bench examples >>"$dir/found"
# shellcheck disable=SC2086
[ "$(find $modules cli tests -name '*.c' | wc -l)" -ge 300 ] || say "the check sees only a part of the tree"
found=$(check "$dir/found")
[ -z "$found" ] || say "$found"
exit $bad
