#!/bin/sh
# No source file is longer than 600 lines, no function longer than 60, no folder has more than 26 files: what is larger
# holds two topics and is split. No function has more than 7 parameters: those that travel together are one thing.
# Exceptions have a name and a reason, and go when they are not needed.
# Usage: sizes.sh SOURCE-FOLDER
set -eu
source=$1
most_lines=600
most_files=26
most_body=60
most_parameters=7
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }

# Files, folders and functions (PATH:NAME) that may be larger, and functions that may have more parameters (PATH:NAME()),
# a tab, the reason.
cat >"$dir/allowed" <<'END'
bench/cases/synth_links.c:bench	one table of cases and its loop
draw/canvas.c:ccl_i_text()	as printf: where and how large, then the text
draw/canvas.c:ccl_i_text_bold()	as printf: where and how large, then the text
draw/canvas.c:ccl_i_text_up()	as printf: where and how large, then the text
graph/bliss.c:ccl_undirected_automorphisms()	public: a callback, with what it is given and what each thread copies
lower/blocks/state.c:sort_steps	one topological sort: its queue frees three kinds of successors
make/make.c:ccl_make()	public: from a cluster to a program in one call, with the options of both halves
runtime/gpu/kernel.h:ccl_kernel_begin()	inlined on GPUs: what a thread holds in registers, some of it to change
runtime/gpu/kernel.h:ccl_kernel_many()	inlined on GPUs: what a thread holds in registers, some of it to change
runtime/gpu/kernel.h:ccl_kernel_pass()	inlined on GPUs: what a thread holds in registers, some of it to change
runtime/gpu/kernel.h:ccl_kernel_wait()	inlined on GPUs: what a thread holds in registers, some of it to change
runtime/gpu/move.h:ccl_gpu_move_piece()	inlined on GPUs: what a thread holds in registers, some of it to change
runtime/standalone/comm_own.h:ccllabTogether()	a call as those of NCCL, for several communicators
schedule/verify/verdict.c:ccl_i_fault()	as printf: where, then the text
search/export/export.c:ccl_export_plans()	public: of a tuning a list with its length
search/export/export.c:ccl_export_programs()	public: of a tuning a list with its length
search/export/table.c:ccl_export_nccl_tuner()	public: a list with its length
search/export/table.c:ccl_export_table_create()	public: two lists with their lengths
search/tune/tune_eval.c:ccl_tune_program()	public: a point at a size, for a target
sim/program.c:advance	the state machine of a thread block: its phases are read together
sim/setup.c:ccl_i_sim_run()	those of ccl_sim_program(), and the trial
synth/registry.c:ccl_synthesize()	public: what a synthesizer takes (ccl_synth_ops_t), and its name
tests/cli	one script for each command and kind of output
tests/cli/cli_json_shapes.c	tables: the fields of every output
tests/runtime	one test for each transport, device and fault
tests/runtime/fakegpu/cuda_runtime.h:cudaMemcpy2DAsync()	an interface of CUDA
tests/runtime/fakenccl.c:ncclReduce()	an interface of NCCL
tests/schedule/unit_verify.c	one small program or schedule for each fault that the verifier must find
tests/search	one test for each search, its stores and what it exports
tests/sim/naive.h	a second simulator, written to be read from top to bottom beside docs/model.md
tests/sim/naive.h:naive_flow_list	a second simulator, written to be read from top to bottom beside docs/model.md
tests/sim/naive.h:naive_move	a second simulator, written to be read from top to bottom beside docs/model.md
tests/sim/naive.h:naive_program	a second simulator, written to be read from top to bottom beside docs/model.md
tests/synth	one test for each synthesizer and property
tests/synth/unit_sketch.c	clusters worked out by hand, which share one fixture
topologies/builder.c:ccl_topology_builder_device()	public: the fields of a device
topologies/builder.c:ccl_topology_builder_duplex()	public: the fields of a link
topologies/builder.c:ccl_topology_builder_link()	public: the fields of a link
topologies/clusters	data: one file for each published cluster
topologies/host.c:ccl_topology_host()	public: the constants of a host
topologies/readers/xml_tree.c:on_entity()	an interface of expat
topologies/routes_tree.c:ccl_routes_tree()	public: a switch connection: direction, GPU, a list with its length, channel
topologies/servers	data: one file for each server
validate/diagnose.c:ccl_diagnose()	public: a measured run, and what is known of its job
validate/fit/fit.c:ccl_fit()	public: two lists with their lengths, a callback
validate/fit/gpu_validate.c:ccl_validate_gpu()	public: two lists with their lengths
validate/fit/host_validate.c:ccl_validate_host()	public: two lists with their lengths
validate/nccl/nccl_program.c:ccl_nccl_program()	public: a call of NCCL (kind, root, choice) on a cluster
validate/nccl/predict.c:ccl_nccl_baselines()	public: a list with its length
validate/nccl/predict.c:ccl_predictor_estimate()	public: a call of NCCL (kind, root, size, choice), and a limit
validate/testbed.c:ccl_testbed_calibrate()	public: a callback, and what is measured with it
validate/testbed.c:ccl_validate_testbed()	public: two lists with their lengths
END

# What is too large below FOLDERS, one line "PATH<tab>what" each.
too_large() {
    find "$@" -type f \( -name '*.c' -o -name '*.h' \) -exec awk -v most="$most_lines" '
        FNR == 1 { report() }
        { file = FILENAME; lines = FNR }
        function report() { if (lines > most) print file "\t" lines " lines, " most " are the most" }
        END { report() }' {} + | sort
    find "$@" -type f | sed 's,/[^/]*$,,' | sort | uniq -c | awk -v most="$most_files" '
        $1 > most { print $2 "\t" $1 " files, " most " are the most" }'
}

# Functions below FOLDERS with too many parameters, or too many lines from the one with the opening brace to that with the
# closing one.
too_long() {
    find "$@" -type f \( -name '*.c' -o -name '*.h' \) -exec awk -v most="$most_body" -v many="$most_parameters" '
        function parameters(head,    i, depth, n, c) { # commas in the first parentheses, but for those in inner ones
            n = 1
            for (i = index(head, "("); i <= length(head); i++) {
                c = substr(head, i, 1)
                if (c == "(") depth++
                if (c == ")" && --depth == 0) break
                if (c == "," && depth == 1) n++
            }
            return n
        }
        FNR == 1 { name = "" }
        /^[A-Za-z_].*\(/ && !/[;}]$/ && !/=/ {
            name = $0
            sub(/^START_TEST\(/, "", name)
            sub(/[()].*/, "", name)
            sub(/.*[ *]/, "", name)
            head = ""
            start = 0
        }
        name != "" && !start {
            head = head $0
            if (/;$/) name = ""
            if (/\{( *\/\*.*)?$/) {
                start = FNR
                if (parameters(head) > many)
                    print FILENAME ":" name "()\t" parameters(head) " parameters, " many " are the most"
            }
        }
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
cat >"$dir/tree/right/long.c" <<'END'
int declared(int a, int b, int c, int d, int e, int f, int g, int h);

static int right(int a, int (*b)(int, int, int), int c, int d,
                 int e, int f, int g) {
    return a;
}

static const int *wrong(int a, int (*b)(int, int, int), int c, int d,
                        int e, int f, int g, int h) { /* one more */
    return right(a, b, c, d, e, f, right(a, b, c, d, e, f, h));
}
END
too_long "$dir/tree" >"$dir/found"
[ "$(cat "$dir/found")" = "$dir/tree/right/long.c:wrong()	8 parameters, 7 are the most" ] ||
    say "a parameter too much passes, or another function is refused: $(cat "$dir/found")"
mv "$dir/allowed" "$dir/all"
printf '%s\treason\n' "$dir/tree/right/long.c:wrong()" "$dir/tree/right/long.c:right()" >"$dir/allowed"
[ "$(check "$dir/found")" = "not too large any more, so no exception: $dir/tree/right/long.c:right()" ] ||
    say "an exception for parameters does not count, or an idle one passes: $(check "$dir/found")"
mv "$dir/all" "$dir/allowed"
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
too_long $modules cli tests fuzz bench examples >>"$dir/found"
# shellcheck disable=SC2086
[ "$(find $modules cli tests -name '*.c' | wc -l)" -ge 300 ] || say "the check sees only a part of the tree"
found=$(check "$dir/found")
[ -z "$found" ] || say "$found"
exit $bad
