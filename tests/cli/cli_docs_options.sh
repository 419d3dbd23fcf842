#!/bin/sh
# Tables of options in docs/ are those that the program prints: between a line
# "<!-- ccllab help --markdown TABLE -->" and "<!-- end -->".
# Usage: cli_docs_options.sh PROGRAM SOURCE_DIR [--update]
set -eu
ccllab=$1
docs=$2/docs
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
filled() { # page; as it should be
    awk -v ccllab="$ccllab" '
        /^<!-- end -->$/ { on = 0 }
        !on
        /^<!-- ccllab help --markdown [a-z]+ -->$/ { on = 1; system("\"" ccllab "\" help --markdown " $5); fflush() }' "$1"
}
tables=0
for page in "$docs"/*.md; do
    n=$(grep -c '^<!-- ccllab help --markdown ' "$page" || true)
    [ "$n" -gt 0 ] || continue
    tables=$((tables + n))
    [ "$(grep -c '^<!-- end -->$' "$page")" -eq "$n" ] || { echo "$page: a table does not end"; bad=1; }
    filled "$page" >"$dir/page"
    cmp -s "$page" "$dir/page" && continue
    if [ "${3:-}" = --update ]; then
        cp "$dir/page" "$page"
    else
        diff "$page" "$dir/page" || true
        echo "$page has other options than the program: sh tests/cli/cli_docs_options.sh PROGRAM SOURCE_DIR --update"
        bad=1
    fi
done
[ "$tables" -eq 4 ] || { echo "$tables tables of options in docs/, not 4"; bad=1; }
# The check itself: a table that lost a row differs.
sed '/--max-relays N/d' "$docs/commands.md" >"$dir/without"
filled "$dir/without" | cmp -s - "$dir/without" && { echo "a lost row is not seen"; bad=1; }
rc=0
"$ccllab" help --markdown nosuch 2>"$dir/said" || rc=$?
[ "$rc" -eq 2 ] && [ "$(wc -l <"$dir/said")" -eq 1 ] || { echo "help --markdown nosuch: $rc"; bad=1; }
exit $bad
