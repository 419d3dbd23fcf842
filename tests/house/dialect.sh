#!/bin/sh
# The prose of the project keeps to docs/glossary.md: no word of the list below stands in a page, in a README, in the
# changelog, in the help of a command, or in a comment of a folder that is named in `clean`. Code blocks of pages are
# left out: what a program prints is checked where it is written.
# Usage: dialect.sh SOURCE-FOLDER PROGRAM
set -eu
source=$1
ccllab=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }

# Folders whose comments are held to the list. Whoever cleans another one adds it here.
clean="base graph topologies models runtime validate schedule sim lower synth search training draw report cli bench fuzz"

# What is looked for (extended regular expression, lower case, words bounded by blanks), and the words to use instead.
# In the text that is searched every character that is no letter or hyphen is one blank.
cat >"$dir/rules" <<'END'
 unlike (gpu|device|server|vendor|speed|cluster|link|machine|node|rank|host|kind)s? | (is|are|be|of|too) unlike 	heterogeneous, or "different"
 so (many|few|much|long) 	the number itself, "that many", "as many as", "at most N"
 (tell|tells|told|telling) 	report, say, show, determine, list ("tell apart" is fine)
 dear(er|est|ly)? 	expensive, costly, slow; cost
 turned 	time-reversed; reversed ("turned on", "off", "into" and "out" are fine)
 (hang|hangs|hung) on 	depends on; sensitivity
 (partial|whole) sums? | (copies|orders?|steps|hops) of sums | sums (are|go|gather|come|out|on|in|to|leave|travel|land) | of sums | (keep|keeps|keeper of|knows?|needs?) (a|the) sum | summands? 	reduction, (partial) result, input
 (whence|anew|beforehand|lest|programme|thither) 	from where, again, before, so that not, program
 had better 	should
 behind (each other|one another|the other) 	one after the other
 (chunks?|parts?) (per|a) block | block of a rank | rank s block | (a|every|each) block is cut 	shard (a block is a thread block)
 (everybody|everyone) 	all ranks, all GPUs
 one s own 	your own
END

# Lines that may stay: FILE, a tab, a part of the line (case and marks as written), a tab, the reason.
cat >"$dir/allowed" <<'END'
END

# Text, one line "FILE:LINE<tab>TEXT" per line, to the lines that break a rule. "tell apart" and its like are taken out first.
offending() {
    awk -F '\t' -v rules="$dir/rules" -v allowed="$dir/allowed" -v used="$dir/used" '
        BEGIN {
            while ((getline line <rules) > 0) { split(line, part, "\t"); n++; rule[n] = part[1]; instead[n] = part[2] }
            while ((getline line <allowed) > 0) { split(line, part, "\t"); m++; file[m] = part[1]; may[m] = part[2] }
        }
        {
            text = $0; sub(/^[^\t]*\t/, "", text)
            for (i = 1; i <= m; i++) if (index($1, file[i] ":") == 1 && index(text, may[i])) { print i >used; next }
            words = tolower(text)
            gsub(/`[^`]*`|[a-z0-9]+_[a-z0-9_]+/, " ", words) # identifiers
            gsub(/[^a-z-]+/, " ", words)
            words = " " words " "
            gsub(/ (tell|tells|told|telling)( [a-z-]+)* apart /, " ", words)
            gsub(/ turned (on|off|into|out) /, " ", words)
            gsub(/ thread blocks? /, " ", words)
            for (i = 1; i <= n; i++) if (match(words, rule[i])) {
                found = substr(words, RSTART + 1, RLENGTH - 2)
                print $1 ": \"" found "\": " instead[i]
            }
        }'
}

pages() { # files: their lines outside of code blocks
    awk 'FNR == 1 { on = 0 } /^[ ]*```/ { on = !on; next } !on && !/^    / { gsub(/\t/, " "); print FILENAME ":" FNR "\t" $0 }' "$@"
}

comments() { # C files: the lines of their comments
    awk '
        FNR == 1 { on = 0 }
        { line = $0; text = ""
          while (line != "") {
              if (!on) { at = index(line, "/*"); if (!at) break; line = substr(line, at + 2); on = 1 }
              end = index(line, "*/")
              if (!end) { text = text " " line; line = ""; break }
              text = text " " substr(line, 1, end - 1); line = substr(line, end + 2); on = 0
          }
          gsub(/\t/, " ", text)
          if (text != "") print FILENAME ":" FNR "\t" text }' "$@"
}

# The check itself: each rule is broken once in a page, once in a comment; what is allowed passes.
: >"$dir/used"
printf '%s\n' 'clusters of unlike GPUs' 'devices that are unlike' 'a solver with so many nodes' 'the log tells the rest' \
    'the dearest edge' 'a turned schedule' 'what hangs on it' 'partial sums are sent' 'made anew' 'they had better wait' \
    'one behind the other' 'two chunks per block' 'sent to everybody' "one's own file" >"$dir/wrong.md"
[ "$(pages "$dir/wrong.md" | offending | sed 's/:.*//' | wc -l)" -ge 13 ] || say "a page with a forbidden word passes"
while IFS='	' read -r rule instead; do
    printf '%s\n' "$rule	x" >"$dir/one"
    mv "$dir/rules" "$dir/all" && mv "$dir/one" "$dir/rules"
    [ "$(pages "$dir/wrong.md" | offending | wc -l)" -ge 1 ] || say "no example breaks the rule \"$rule\" ($instead)"
    mv "$dir/all" "$dir/rules"
done <"$dir/rules"
printf 'int x; /* so many */\nchar *so_many; /* told\n * apart */ int tells;\n' >"$dir/wrong.c"
[ "$(comments "$dir/wrong.c" | offending | wc -l)" -eq 2 ] || say "a comment with a forbidden word passes, or code is taken for one"
printf '%s\n' 'the sum of both, not the max' 'it tells the two apart' 'switched off, turned off' '`--tell so many`' \
    'a cluster, unlike a server, has a network' '@param chunks_per_block of a shard' '```' 'so many' '```' >"$dir/right.md"
[ -z "$(pages "$dir/right.md" | offending)" ] || say "right words are refused: $(pages "$dir/right.md" | offending)"

cd "$source"
: >"$dir/used"
# shellcheck disable=SC2046
pages $(find . \( -name build -o -name .git \) -prune -o -name '*.md' -print | sed 's,^\./,,' | sort) >"$dir/text"
for folder in $clean; do
    # shellcheck disable=SC2046
    comments $(find "$folder" -name '*.[ch]' | sort) >>"$dir/text"
done
pages=$(wc -l <"$dir/text")
"$ccllab" help --commands >"$dir/commands"
{ echo "help"; sed 's/$/ --help/' "$dir/commands"; } | while read -r command; do
    # shellcheck disable=SC2086
    "$ccllab" $command | awk -v what="ccllab $command" '{ gsub(/\t/, " "); print what ":" FNR "\t" $0 }'
done >>"$dir/text"
[ "$pages" -ge 3000 ] && [ $(($(wc -l <"$dir/text") - pages)) -ge 500 ] || say "the check sees only $(wc -l <"$dir/text") lines"
found=$(offending <"$dir/text")
[ -z "$found" ] || say "$found"
n=0
while IFS='	' read -r file part reason; do
    n=$((n + 1))
    [ "$reason" ] || say "allowed without a reason: $file: $part"
    grep -qx "$n" "$dir/used" || say "no line needs this any more: $file: $part"
done <"$dir/allowed"
exit $bad
