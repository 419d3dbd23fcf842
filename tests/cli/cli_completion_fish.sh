#!/bin/sh
# The completion for fish: what it offers for a line. Usage: cli_completion_fish.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
command -v fish >/dev/null 2>&1 || { echo "no fish"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export HOME="$dir" XDG_CONFIG_HOME="$dir" XDG_DATA_HOME="$dir"
"$ccllab" help --completion fish >"$dir/ccllab.fish"
mkdir "$dir/here"
touch "$dir/here/mine.json"
cd "$dir/here"
cat >"$dir/ask" <<'END'
source $argv[1]/ccllab.fish
function all # wanted exactly, then the line
    set -l offered (complete -C $argv[2] | string replace -r '\t.*' '')
    test "$offered" = "$argv[1]"; or begin; echo "$argv[2]: offered $offered, wanted $argv[1]"; set -g bad 1; end
end
function some # wanted among others, then the line
    set -l offered (complete -C $argv[2] | string replace -r '\t.*' '')
    contains -- $argv[1] $offered; or begin; echo "$argv[2]: offered $offered, without $argv[1]"; set -g bad 1; end
end
set -g bad 0
all 'simulate' 'ccllab sim'
all 'show' 'ccllab topology sh'
all 'show symmetry' 'ccllab help topology s'
all '--version' 'ccllab --v'
all 'dgx-h200' 'ccllab bound --topology dgx-h2'
all 'dgx-h200' 'ccllab bound -t dgx-h2'
all '--topology=dgx-h200' 'ccllab bound --topology=dgx-h2'
all 'allreduce,allgather' 'ccllab compare -c allreduce,allg'
all 'hpds' 'ccllab synth --with hp'
all 'nccl-h100' 'ccllab simulate --profile nccl-h1'
all 'step,hpds step,hpds-printed' 'ccllab lower --order step,h'
all 'threads' 'ccllab run --ranks t'
all 'links' 'ccllab simulate --table l'
all '--granularity' 'ccllab simulate --gran'
all '--progress --progress=json' 'ccllab verify --prog'
some 'mine.json' 'ccllab verify m'
some 'mine.json' 'ccllab bound --topology mi'
all '' 'ccllab devices m'
all '' 'ccllab help simulate m'
exit $bad
END
fish "$dir/ask" "$dir"
