#!/bin/sh
# No page makes a formatter warn, and none has a line that a request was made of by accident. Skipped
# where there is neither man, groff nor mandoc. Usage: cli_manual_roff.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
tools=0

told() { # what a formatter said
    [ ! -s "$dir/told" ] || { cat "$dir/told"; bad=1; }
}
check() { # page files
    if command -v mandoc >/dev/null 2>&1; then # pages have no date, so that equal tables give equal bytes
        tools=1
        mandoc -T lint -W warning "$@" 2>&1 | grep -v 'missing date' >"$dir/told" || true
        told
    fi
    if command -v groff >/dev/null 2>&1; then
        tools=1
        groff -ww -man -Tutf8 -z "$@" 2>"$dir/told" || bad=1
        told
        set -- "$1" # what man does before groff is the same for each
    fi
    if command -v man >/dev/null 2>&1 && man --version 2>/dev/null | grep -q '^man '; then
        tools=1
        man --warnings -E UTF-8 -l -Tutf8 -Z "$@" 2>"$dir/told" >/dev/null || bad=1
        told
    fi
}

"$ccllab" help --man >"$dir/ccllab.1"
check "$dir/ccllab.1"
[ "$tools" -eq 1 ] || { echo "no man, groff or mandoc"; exit 77; }
"$ccllab" help --commands >"$dir/commands"
while read -r command <&3; do
    page=$dir/ccllab-$(echo "$command" | tr ' ' '-').1
    # shellcheck disable=SC2086
    "$ccllab" help --man $command >"$page"
    # Only the requests that pages are made of.
    awk -v page="$page" '/^[.]/ && $1 !~ /^[.](TH|SH|TP|B|BR|PP|nf|fi|nh|\\")$/ { print page ": " $0; n++ }
        length($0) == 0 { print page ": empty line"; n++ } END { exit n > 0 }' "$page" || bad=1
done 3<"$dir/commands"
check "$dir"/ccllab-*.1
# The check itself: a request that is none is told.
printf '.TH X 1\n.SH NAME\nx \\- y\n.nosuchrequest\n' >"$dir/wrong.1"
was=$bad bad=0
check "$dir/wrong.1" >/dev/null
[ "$bad" -eq 1 ] || { echo "a wrong page is not told"; was=1; }
exit $was
