#!/bin/sh
# The completion, sourced and asked in bash: what is offered for a line, word by word as readline parts it.
# Usage: cli_completion_bash.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
command -v bash >/dev/null 2>&1 || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$ccllab" help --completion >"$dir/completion.bash"
"$ccllab" help --commands >"$dir/commands"
mkdir "$dir/here"
touch "$dir/here/mine.json" "$dir/here/my run.log"
cd "$dir/here"
cat >"$dir/ask" <<'END'
set -eu
. "$2/completion.bash"
ccllab=$1
bad=0
say() { echo "$*"; bad=1; }
complete -p ccllab >/dev/null || say "bash was told of no completion"
ask() { # words..., the last one at the cursor: into $offered
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _ccllab || true
    offered=
    local item
    for item in "${COMPREPLY[@]+"${COMPREPLY[@]}"}"; do offered+="[$item]"; done
}
all() { # wanted exactly, then words...
    local want=$1
    shift
    ask "$@"
    [ "$offered" = "$want" ] || say "$*: offered $offered, wanted $want"
}
some() { # wanted among others, then words...
    local want=$1
    shift
    ask "$@"
    each "$want" "$*"
}
each() { # wanted among what was offered last, what was asked
    case $offered in *"$1"*) ;; *) say "$2: offered $offered, without $1" ;; esac
}

all '[simulate]' ccllab sim
all '[topology]' ccllab top
all '[--version]' ccllab --v
all '[show]' ccllab topology sh
some '[simulate]' ccllab help ''
all '[show][symmetry]' ccllab help topology s
all '' ccllab nosuch ''
all '[--granularity]' ccllab simulate --gran
all '[--time-limit]' ccllab synth --time
all '[heteccl-h20-4+8]' ccllab simulate --topology heteccl-h20-4+
all '[heteccl-h20-4+8]' ccllab simulate -t heteccl-h20-4+
all '[dgx-h200]' ccllab bound --topology = dgx-h2
some '[dgx-a100]' ccllab bound --topology =
some '[mine.json]' ccllab bound --topology mi
all '[allreduce,allgather]' ccllab compare -c allreduce,allg
all '[allreduce][allgather][alltoall]' ccllab synth --collective al
all '[hpds]' ccllab synth --with hp
all '[ring,hm]' ccllab compare --with ring,hm
all '[nccl-h100]' ccllab simulate --profile nccl-h1
all '[step][rr][hpds][hpds-printed]' ccllab lower --order ''
all '[step,hpds][step,hpds-printed]' ccllab lower --order step,h
all '[LL][LL128]' ccllab simulate --proto LL
all '[cuda]' ccllab run --device c
all '[threads]' ccllab run --ranks t
all '[threads]' ccllab calibrate --ranks t
all '' ccllab lower --size ''
all '[links]' ccllab simulate --table l
all '[--progress][--progress=json]' ccllab verify --prog
all '[mine.json][my run.log]' ccllab verify m
all '[my run.log]' ccllab diagnose my
all '[mine.json]' ccllab simulate -t dgx-a100 min
all '' ccllab devices m
some '[pxn]' ccllab testbed run dgx-a100 px
all '[dgx-a100]' ccllab topology show --fail gpu:1 dgx-a

# Every command, with every option that its help tells, and values that the program takes.
while read -r -a command; do
    known=$("$ccllab" "${command[@]}" --help | sed -n 's/^  .\{0,3\} *\(--[a-z-]*\).*/\1/p')
    [ -n "$known" ] || say "${command[*]}: this test sees no options"
    ask ccllab "${command[@]}" --
    for option in $known; do
        each "[$option]" "${command[*]} --"
    done
    case " ${known//$'\n'/ } " in
    *' --table '*)
        ask ccllab "${command[@]}" --table ''
        [ -n "$offered" ] || say "${command[*]}: --table offers nothing"
        ;;
    esac
done <"$2/commands"
# Values stand in the script, so none can be of another build: the library's clusters all.
"$ccllab" topology list --csv --quiet | sed -n '2,$s/,.*//p' >"$2/clusters"
[ -s "$2/clusters" ] || say "no clusters listed"
ask ccllab topology show ''
while read -r cluster; do
    each "[$cluster]" "topology show"
done <"$2/clusters"
exit $bad
END
bash "$dir/ask" "$ccllab" "$dir"
