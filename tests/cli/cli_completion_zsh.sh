#!/bin/sh
# The completion for zsh, in a zsh of a terminal's kind: what Tab offers for a line.
# Usage: cli_completion_zsh.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
command -v zsh >/dev/null 2>&1 || { echo "no zsh"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/functions" "$dir/here"
"$ccllab" help --completion zsh >"$dir/functions/_ccllab"
touch "$dir/here/mine.json"
cd "$dir/here"
cat >"$dir/ask" <<'END'
zmodload zsh/zpty || exit 77
dir=$1
bad=0
say() { print -r -- "$*"; bad=1 }
# A shell in which Tab prints what compadd is given and that fits, between two marks.
zpty shell zsh -f -i
zpty -w shell "PS1=; stty -echo; fpath=($dir/functions \$fpath); autoload -U compinit; compinit -u -d $dir/dump; zstyle ':completion:*' list-max 0
compadd() { local -a hits; if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd \"\$@\"; return; fi
builtin compadd -A hits \"\$@\"; [[ -n \$hits ]] && { local h; for h in \$hits; do print -r -- \"[\$IPREFIX\$h]\"; done }; builtin compadd \"\$@\" }
offer() { print -r -- BEGIN; zle complete-word; print -r -- END; zle kill-whole-line }
zle -N offer; bindkey '^I' offer; print READY"
local line
while zpty -r shell line; do [[ $line == *READY* && $line != *print* ]] && break; done
ask() { # the line: into $offered
    offered=
    zpty -w -n shell "$1"$'\t'
    local line inside=0
    while zpty -r shell line; do
        line=${line%%[$'\r\n']#}
        [[ $line == *BEGIN ]] && { inside=1; continue }
        [[ $line == *END* ]] && break
        (( inside )) && [[ $line == *\[*\]* ]] && offered+="[${${line##*\[}%%\]*}]"
    done
}
all() { # wanted exactly, then the line
    ask "$2"
    [[ $offered == "$1" ]] || say "$2: offered $offered, wanted $1"
}
some() { # wanted among others, then the line
    ask "$2"
    [[ $offered == *"$1"* ]] || say "$2: offered $offered, without $1"
}
setopt extendedglob
all '[simulate]' 'ccllab sim'
all '[show]' 'ccllab topology sh'
all '[symmetry]' 'ccllab help topology sy'
all '[dgx-h200]' 'ccllab bound --topology dgx-h2'
all '[dgx-h200]' 'ccllab bound -t dgx-h2'
all '[allreduce,allgather]' 'ccllab compare -c allreduce,allg'
all '[hpds]' 'ccllab synth --with hp'
all '[nccl-h100]' 'ccllab simulate --profile nccl-h1'
all '[threads]' 'ccllab run --ranks t'
all '[links]' 'ccllab simulate --table l'
all '[--granularity]' 'ccllab simulate --gran'
some '[mine.json]' 'ccllab verify mi'
all '' 'ccllab devices m'
zpty -d shell
exit $bad
END
zsh -f "$dir/ask" "$dir"
