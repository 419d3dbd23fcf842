#!/bin/sh
# Plugins: the guide's biring in synth, compare, tune and algos, from --plugin and from CCLLAB_PLUGINS; the lab notebook keeps points
# of one build of a plugin apart from those of another; files that are no plugins get one line and their exit code.
# Its own option is on the command line, in help, knobs and settings.
# Usage: cli_synth_plugins.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
object() { # name, source on standard input
    "${CC:-cc}" -std=c11 -shared -fPIC -I"$source" -x c -o "$dir/$1.so" -
}
unset CCLLAB_PLUGINS
cluster='servers:1 gpus:4 nvswitch=300GB/s,1us'

# What works.
object biring <"$source/examples/biring.c"
"$ccllab" synth --plugin "$dir/biring.so" -t "$cluster" -c allgather --with biring -o "$dir/made.json" >/dev/null || say "synth: $?"
"$ccllab" verify "$dir/made.json" >/dev/null || say "its schedule is wrong"
"$ccllab" synth --plugin "$dir/biring.so" -t "$cluster" -c allgather --with biring --size 1M -o "$dir/made.xml" >/dev/null || say "lowering: $?"
"$ccllab" simulate "$dir/made.xml" -t "$cluster" --size 1M >/dev/null || say "simulate: $?"
(cd "$dir" && "$ccllab" compare --plugin biring.so --plugin ./biring.so -t "$cluster" -c allgather --sizes 1M --csv) >"$dir/out" ||
    say "compare: $?"
grep -q biring "$dir/out" || say "compare without --with leaves the plugin out"
"$ccllab" compare -t "$cluster" -c allgather --sizes 1M --csv >"$dir/out"
! grep -q biring "$dir/out" || say "a plugin that nobody named takes part"
CCLLAB_PLUGINS=":$dir/biring.so:" "$ccllab" algos >"$dir/out" || say "algos: $?"
grep -q '^biring$' "$dir/out" || say "algos does not list it"
if "$ccllab" synth --plugin "$dir/biring.so" -t "$cluster" -c reduce --with biring -o - >"$dir/out" 2>&1; then say "it can reduce"; fi
grep -q 'biring cannot do reduce here: ' "$dir/out" || say "its reason is lost: $(cat "$dir/out")"
if "$ccllab" synth --plugin "$dir/biring.so" -t resccl-topo2 -c allgather --with biring -o - >"$dir/out" 2>&1; then code=0; else code=$?; fi
[ $code -le 1 ] || say "a cluster without routes: exit code $code: $(cat "$dir/out")"

# Tuned; a second time from the notebook; another build of the plugin is not taken for the first.
tune() { # plugin
    "$ccllab" tune --plugin "$dir/$1.so" -t "$cluster" -c allgather --sizes 1M -k with=biring -k channels=1,2 --strategy grid \
        --budget 100runs --notebook "$dir/lab.db" --json >"$dir/tuned.json" || say "tune: $?"
    "$ccllab" notebook query "SELECT count(DISTINCT settings) FROM point" --notebook "$dir/lab.db" --csv | tail -n 1
}
first=$(tune biring)
[ "$first" -ge 2 ] || say "tune: $first settings in the notebook"
[ "$(tune biring)" = "$first" ] || say "tune: points are made again"
sed 's/half the steps/half of the steps/' "$source/examples/biring.c" | object other
[ "$(tune other)" = $((2 * first)) ] || say "tune: points of another build of a plugin are taken"

# Its option: in help where the plugin is, before and behind it, in range; other schedules, and other points of the notebook.
"$ccllab" compare --plugin "$dir/biring.so" --help >"$dir/out" || say "help: $?"
grep -q '^options of biring:$' "$dir/out" && grep -q '^ *--biring-right N ' "$dir/out" || say "help lacks its option"
CCLLAB_PLUGINS="$dir/biring.so" "$ccllab" synth --help | grep -q -- --biring-right || say "CCLLAB_PLUGINS: help lacks its option"
"$ccllab" compare --help >"$dir/out"
! grep -q biring "$dir/out" || say "help has the option without the plugin"
steps() { # options
    "$ccllab" synth "$@" -t "$cluster" -c allgather --with biring -o "$dir/made.json" >/dev/null || say "synth $*: $?"
    "$ccllab" verify "$dir/made.json" >/dev/null || say "synth $*: wrong"
    sed -n 's/^ *\[[0-9]*, [0-9]*, [0-9]*, \([0-9]*\), .*$/\1/p' "$dir/made.json" | sort -n | tail -n 1
}
[ "$(steps --plugin "$dir/biring.so")" = 1 ] || say "synth: not two steps"
[ "$(steps --plugin "$dir/biring.so" --biring-right 3)" = 2 ] || say "--biring-right 3: not three steps"
[ "$(steps --biring-right=3 --plugin="$dir/biring.so")" = 2 ] || say "--biring-right before --plugin: not three steps"
wrong() { # pattern, options
    pattern=$1
    shift
    if "$ccllab" compare "$@" -t "$cluster" -c allgather --sizes 1M >"$dir/out" 2>&1; then say "$*: is taken"; fi
    grep -q -- "$pattern" "$dir/out" || say "$*: $(cat "$dir/out")"
}
wrong 'option --biring-right wants a whole number from 1 to 4294967294, not "0"' --plugin "$dir/biring.so" --biring-right 0
wrong 'unknown option --biring-rigt, did you mean --biring-right?' --plugin "$dir/biring.so" --biring-rigt 1
wrong 'unknown option --biring-right ' --biring-right 1
settings() { # options of a comparison whose points are kept
    "$ccllab" compare --plugin "$dir/biring.so" -t "$cluster" -c allgather --sizes 1M --with biring --notebook "$dir/own.db" "$@" --csv >/dev/null ||
        say "compare $*: $?"
    "$ccllab" notebook query "SELECT count(DISTINCT settings) FROM point" --notebook "$dir/own.db" --csv | tail -n 1
}
[ "$(settings)" = 1 ] || say "notebook: not one point"
[ "$(settings --biring-right 2)" = 2 ] || say "notebook: a point with the option is the one without"
[ "$(settings --biring-right 2)" = 2 ] || say "notebook: a point with the option is made again"
"$ccllab" tune --plugin "$dir/biring.so" -t "$cluster" -c allgather --sizes 1M -k with=biring -k channels=1 -k biring_right=1,3 --strategy grid \
    --budget 100runs --notebook "$dir/own.db" --json >"$dir/tuned.json" || say "tune: $?"
grep -q '"biring_right"' "$dir/tuned.json" || say "tune: its knob is not in the report"
"$ccllab" notebook query "SELECT DISTINCT settings FROM point" --notebook "$dir/own.db" >"$dir/out"
grep -q '"biring_right":3' "$dir/out" || say "tune: its knob is not in the notebook"

# What is refused: exit code, one line.
refused() { # exit code, pattern, plugin
    code=0
    "$ccllab" algos --plugin "$3" >"$dir/out" 2>"$dir/err" || code=$?
    [ $code -eq "$1" ] || say "$3: exit code $code, not $1"
    [ "$(wc -l <"$dir/err")" -eq 1 ] && grep -q "$2" "$dir/err" || say "$3: $(cat "$dir/err")"
    [ ! -s "$dir/out" ] || say "$3: something is printed"
}
variant() { # name, sed script: the guide's plugin, changed
    sed "$2" "$source/examples/biring.c" | object "$1"
}
refused 4 'nowhere.so: cannot open' "$dir/nowhere.so"
echo 'no plugin' >"$dir/text.so"
refused 2 'plugin .*text.so cannot be loaded: ' "$dir/text.so"
variant symbol 's/^CCL_PLUGIN.*//; s/^static const ccl_synth_ops_t/extern const ccl_synth_ops_t biring; const ccl_synth_ops_t/'
refused 2 'symbol.so is no plugin: it has no symbol ccllab_plugin' "$dir/symbol.so"
variant lacks 's/ccl_schedule_builder_finish/ccl_schedule_builder_end/g; s/^#define MOST.*/&\nextern ccl_status_t ccl_schedule_builder_end(ccl_schedule_builder_t *, ccl_schedule_t **, ccl_error_t *);/'
refused 2 'lacks.so cannot be loaded: .*undefined symbol: ccl_schedule_builder_end' "$dir/lacks.so"
variant old 's/^#define MOST.*/&\n#undef CCL_VERSION\n#define CCL_VERSION "0.0.9"/'
refused 2 'old.so was compiled with the headers of ccllab 0.0.9, this is .*: compile it again' "$dir/old.so"
variant table 's/^CCL_PLUGIN.*/extern const ccl_plugin_t ccllab_plugin; const ccl_plugin_t ccllab_plugin = {8, CCL_VERSION, \&biring};/'
refused 2 'table.so was compiled with the headers of ccllab ?, this is ' "$dir/table.so"
variant small 's/sizeof(ccl_synth_ops_t)/8/'
refused 2 'small.so: ccl_synth_ops_t has 8 bytes, not ' "$dir/small.so"
variant taken 's/= "biring"/= "ring"/'
refused 2 'taken.so: there is a synthesizer ring already' "$dir/taken.so"
variant named 's/= "biring"/= "Bi ring"/'
refused 2 "named.so: a synthesizer's name has 1 to 31 characters" "$dir/named.so"
variant half '/\.synthesize = /d'
refused 2 'half.so: synthesizer biring lacks summary, source, supports() or synthesize()' "$dir/half.so"
variant prefix 's/"biring-right"/"right"/'
refused 2 'prefix.so: synthesizer biring: the name of option --right is not biring-' "$dir/prefix.so"
variant knob 's/"biring_right"/"right"/'
refused 2 'knob.so: synthesizer biring: option --biring-right wants its own name with _ for - (knob)' "$dir/knob.so"
variant line 's/= "biring"/= "with"/; s/"biring-right"/"with-ccl"/; s/"biring_right"/"with_ccl"/'
refused 2 "synthesizer with: --with-ccl is an option of ccllab's" "$dir/line.so"
if CCLLAB_PLUGINS="$dir/taken.so" "$ccllab" algos >/dev/null 2>"$dir/err"; then say "CCLLAB_PLUGINS: what is refused passes"; fi
grep -q 'taken.so: ' "$dir/err" || say "CCLLAB_PLUGINS: $(cat "$dir/err")"
CCLLAB_PLUGINS="$dir/taken.so" "$ccllab" topology list >/dev/null || say "a command without synthesizers loads plugins"
exit $bad
