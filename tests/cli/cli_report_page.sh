#!/bin/sh
# `ccllab report`: what stands in the page, that it needs nothing else, its size, one line for what is wrong.
# Usage: cli_report_page.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
bad=0
say() { echo "$*"; bad=1; }
has() { grep -qF -e "$2" "$1" || say "$1 has no $2"; }
cluster=heteccl-h20-4+8

"$ccllab" compare -t $cluster -c allgather --sizes 1M:16M:4 --with ring,hm,tree --json -o compare.json
"$ccllab" synth -t $cluster -c allgather --with hm --size 16M -q -o hm.xml
"$ccllab" simulate -t $cluster hm.xml --size 16M --json -o run.json --trace run.trace.json
"$ccllab" bound -t $cluster -c allgather --size 16M --json -o bound.json
"$ccllab" explain -t $cluster -c allgather --with ring --size 1M --json -o why.json
"$ccllab" report compare.json run.json bound.json run.trace.json -t $cluster --question 'Why <hm> & not ring?' -o a.html
"$ccllab" report compare.json run.json bound.json run.trace.json -t $cluster --question 'Why <hm> & not ring?' -j 1 -o b.html
# But for how they were made, and when: a line of its own.
unmade() { sed 's|<p class="made">.*</p>||' "$1"; }
unmade a.html >a.txt
unmade b.html | cmp a.txt - || say "two pages differ"
SOURCE_DATE_EPOCH=86400 "$ccllab" report compare.json -t $cluster -o dated.html
has dated.html '<p class="made">Made on 1970-01-02 by ccllab '
has dated.html '<code>ccllab report compare.json -t heteccl-h20-4+8 -o dated.html</code>'
# A result written as HTML is its page.
"$ccllab" report compare.json -t $cluster -o c.html
"$ccllab" compare -t $cluster -c allgather --sizes 1M:16M:4 --with ring,hm,tree -o compare.html
unmade c.html >c.txt
unmade compare.html | cmp c.txt - || say "compare -o compare.html is another page than report's"
has a.html '<title>Why &lt;hm&gt; &amp; not ring?</title>'
has a.html "links coloured by their use in hm.xml"
[ "$(grep -c '<svg ' a.html)" -eq 3 ] || say "not three pictures: cluster, plot, thread blocks"
# The answer first, in a sentence; every section in the contents; one legend of states.
answer=$(sed -n 's|^<p class="answer">\(.*\)</p>$|\1|p' a.html)
gain=$(sed -n 's/.*"speedup_over_nccl": \([0-9.]*\),*$/\1/p' compare.json | tail -n 1)
case $answer in
"allgather on $cluster: at 16M use "*" % above the bound; what limits: "*) ;;
*) say "the answer is \"$answer\"" ;;
esac
[ -z "$gain" ] || has a.html "$(awk -v x="$gain" 'BEGIN { printf "%.2f times as fast as NCCL", x }')"
[ "$(sed -n '/<h1>/,/class="answer"/p' a.html | wc -l)" -eq 2 ] || say "the answer does not follow the title"
[ "$(grep -c '^<li><a href="#part' a.html)" -eq "$(grep -c '^<section id="part' a.html)" ] || say "contents and sections differ"
[ "$(grep -c 'class="legend" aria-label="Colours of thread blocks"' a.html)" -eq 1 ] || say "not one legend of states"
[ "$(grep -c '<canvas class="timeline"' a.html)" -eq 1 ] || say "not one timeline"
# A row for each of three sizes and the head; a column for each of two contenders that took part.
[ "$(sed -n '/<table class="comparison">/,/<\/table>/p' a.html | grep -c '<tr>')" -eq 4 ] || say "sizes are missing"
[ "$(sed -n '/<table class="everyone">/,/<\/table>/p' a.html | grep -o '<th scope="col" class="n">[a-z]*<' | wc -l)" -eq 3 ] || say "contenders are missing"
[ "$(grep -o 'n win' a.html | wc -l)" -eq 3 ] || say "not a winner per size"
# A slow part, in the answer and as a row.
"$ccllab" explain -q -t $cluster --degrade server:0=50% -c allgather --with ring --size 1M --json -o slow.json
"$ccllab" report slow.json -o slow.html
has slow.html '; a slow part decides: server s0 ('
has slow.html '<caption>Parts slower than others of their kind</caption>'
! grep -q 'slow part' a.html || say "a slow part in a cluster without"
# Times over samples: a distribution for each size, a curve for each contender, their figures below; of a run likewise.
noise='rate@net/device=normal(1,0.1)'
"$ccllab" compare -q -t $cluster -c allgather --sizes 1M,16M --with ring,hm --scenario "$noise" --samples 20 --json -o spread.json
"$ccllab" simulate -q -t $cluster hm.xml --size 16M --scenario "$noise" --samples 20 --json -o sampled.json
"$ccllab" report spread.json sampled.json -o spread.html
[ "$(grep -c '<figure class="spread">' spread.html)" -eq 3 ] || say "not a distribution per size and one of the run"
curves=$(awk '/<figure class="spread">/ { on = 1 } on && /<g class="curve">/ { n++ } /<\/figure>/ { on = 0 } END { print n + 0 }' spread.html)
[ "$curves" -eq 5 ] || say "$curves curves of times over samples"
[ "$(grep -c 'over samples</caption>' spread.html)" -eq 2 ] || say "no figures of the samples"
has a.html '<figure class="curves"'
! grep -q '<figure class="spread">' a.html || say "a distribution without samples"
# Nothing is fetched: the only address is the name of SVG.
addresses=$(grep -oE '(https?:|src=|href=|url\(|@import)[^ >]*' a.html | grep -v -e 'http://www.w3.org/2000/svg' -e '^href="#' -e '^href="data:,"' || true)
[ -z "$addresses" ] || say "the page fetches $addresses"
# The commands that it names give the same figures.
line=$(sed -n '/^<pre>/,/^<\/pre>/p' a.html | sed 's/<[^>]*>//g' | grep -m 1 -- '--with hm')
sh -c "'$ccllab' ${line#ccllab } --json" >again.json
figure() { awk '/"name": "hm"/ && /busbw_GBps/ { sub(/.*"busbw_GBps": /, ""); sub(/,.*/, ""); print }' "$1"; }
[ -n "$(figure again.json)" ] && [ "$(figure again.json)" = "$(figure compare.json)" ] || say "$line: other figures"
line=$(sed -n '/^<pre>/,/<\/pre>/p' a.html | sed 's/<[^>]*>//g' | grep '^ccllab simulate')
sh -c "'$ccllab' ${line#ccllab } --json" >again.json
[ "$(grep '"time_s"' again.json)" = "$(grep '"time_s"' run.json)" ] || say "$line: another time"
# A result of explain: where the time goes, why, the bound's links, what helps, its thread blocks.
"$ccllab" report why.json -o why.html
count() { grep -c "class=\"$1\"" why.html || true; }
member() { sed -n "s/^  \"$1\": //p" why.json | tr -d ,; }
[ "$(grep -c '<svg ' why.html)" -eq 2 ] || say "explain: not two pictures"
has why.html 'Why ring takes its time'
[ "$(count bar)" -eq 2 ] && [ "$(count cut)" -eq 1 ] && [ "$(count part)" -eq 20 ] || say "explain: bars are missing"
causes=$(grep -c '"cause": .*"kind"' why.json) waits=$(grep '"wait": ' why.json | grep -vc '"time_s": 0,')
[ "$(count piece)" -eq $((causes + waits)) ] || say "explain: $(count piece) pieces, not $causes + $waits"
ran=$(grep -c '"what": .*"status": "ok"' why.json)
[ "$(count change)" -eq $((ran < 24 ? ran : 24)) ] || say "explain: $(count change) changes of $ran"
best=$(sed -n 's/^ *{"what": "\([^"]*\)".*/\1/p;' why.json | head -n 1)
grep '<tr><td>' why.html | head -n 1 | sed 's/&gt;/>/g' | grep -qF -e "<td>$best</td>" || say "explain: $best is not first"
share=$(sed -n 's/^    "path_share": //p' why.json | tr -d ,)
has why.html "on the links of the bound, or of cuts alike</th><td>$(awk -v x="$share" 'BEGIN { printf "%.3g", x * 100 }') %<"
has why.html "time</th><td>$(awk -v x="$(member time_s)" 'BEGIN { printf "%.4g", x * 1e6 }') us<"
has why.html "critical path); of what was tried, this helps most: $(echo "$best" | sed 's/>/\&gt;/g')"
# The thread blocks of one run are drawn once, whoever tells of it.
"$ccllab" simulate -t $cluster -c allgather --with ring --size 1M --json -o same.json
"$ccllab" report same.json why.json -o both.html
[ "$(grep -c '<figure class="idle"' both.html)" -eq 1 ] || say "the thread blocks of a run are drawn twice"
line=$(sed -n '/^<pre>/,/<\/pre>/p;/<pre>/p' why.html | sed 's/<[^>]*>//g' | grep '^ccllab explain' | head -n 1)
sh -c "'$ccllab' ${line#ccllab } --no-what-if --json" >again.json
[ "$(grep '^  "time_s"' again.json)" = "$(grep '^  "time_s"' why.json)" ] || say "$line: another time"

# A notebook: as many points as it has, the same page from its export, a command that finds the same time.
"$ccllab" tune -t $cluster -c allgather --sizes 1M -k with=ring,direct -k channels=auto,2 -k chunks=auto -k order=auto -k allocate=auto \
    -k granularity=auto -k proto=auto --strategy grid --notebook lab.db --json -o tune.json 2>tune.log
"$ccllab" report lab.db -o lab.html
"$ccllab" report tune.json -o tune.html
ran=$("$ccllab" notebook query "SELECT count(*) FROM run WHERE time_s" --notebook lab.db --csv | tail -n 1 | tr -d '\r')
[ "$ran" -ge 4 ] && has lab.html "allgather on $cluster: $ran points"
has tune.html '<table class="knobs">'
line=$(sed -n '/<pre>/,/<\/pre>/p' lab.html | sed 's/<[^>]*>//g' | head -n 1)
sh -c "'$ccllab' ${line#ccllab } --json" 2>tune.log | sed -n 's/.*"best": .*"time_s": \([^,]*\),.*/\1/p' >again
sed -n 's/.*"best": .*"time_s": \([^,]*\),.*/\1/p' tune.json | cmp -s - again || say "$line: another time"

# The other results in words: verdict, gain, balance, limit; settings as options, no JSON.
printf '# Collective test starting: all_gather_perf\n# nThread 1 nGpus 8\n1048576 1 half none -1 60 17.4 15.2 0\n' >nccl.log
"$ccllab" diagnose nccl.log -t dgx-h100 --json -o diagnose.json || [ $? -eq 1 ]
"$ccllab" sweep -q -t $cluster -c allgather --sizes 1M --vary scale:bandwidth:net=2 -k with=ring,hm --budget 4runs --notebook none --json -o sweep.json
"$ccllab" balance -t hetccl-snu --speeds nvidia=2,amd=1 --total 48 --json -o balance.json
"$ccllab" verify hm.xml --json -o verify.json
"$ccllab" report diagnose.json sweep.json balance.json bound.json tune.json verify.json -o words.html
has words.html "<p class=\"answer\">$(sed -n 's/^  "verdict": "\(.*\)",$/\1/p' diagnose.json)."
has words.html '<caption>Causes, the likeliest first</caption>'
has words.html '<h2 id="head2">What if: allgather on 2 clusters</h2>'
has words.html 'times as fast as an equal split.</li>'
has words.html 'No schedule can do allgather of 16M on '
has words.html '<code>--with '
sed 's|<script.*||; /^{/d' words.html | grep -v '"name"' | grep -qE '\{&quot;|_bytes|_GBps|ccllab/[a-z]+/1":' && say "words.html has JSON"

# A long trace is thinned.
awk 'BEGIN { print "{\"traceEvents\": ["
    for (i = 0; i < 250000; i++)
        printf "%s{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":\"s\",\"ts\":%d,\"dur\":%d}\n", i ? "," : "", i % 4, i % 7, i * 3, 20 + i % 40
    print "]}" }' >long.trace.json
"$ccllab" report long.trace.json -o long.html
has long.html '250000 events; of a row, those less than'
[ "$(wc -c <long.html)" -lt 10000000 ] || say "long.html has $(wc -c <long.html) bytes"

n=0
refused() { # exit code, part of the one line, command...
    want=$1 text=$2
    shift 2
    n=$((n + 1))
    [ -z "${CCL_SANITIZED:-}" ] || [ $((n % 3)) -eq 0 ] || return 0 # one in three
    rc=0
    "$ccllab" "$@" >out 2>err || rc=$?
    [ "$rc" -eq "$want" ] || say "$*: exit code $rc, not $want"
    [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] || say "$*: more than one line"
    grep -qF -e "$text" err || say "$*: \"$(cat err)\" does not say \"$text\""
    [ ! -e x.html ] || say "$*: a page all the same"
}
echo '{"a": 1}' >odd.json
echo '{"traceEvents": [{"ph": "X", "pid": 0, "tid": 0, "name": "s", "ts": -1, "dur": 1}]}' >odd.trace.json
echo '{"traceEvents": []}' >empty.trace.json
refused 2 'odd.json:1:1: neither a result of ccllab' report odd.json -o x.html
refused 2 'odd.trace.json:1:' report odd.trace.json -o x.html
refused 2 'nothing took any time' report empty.trace.json -o x.html
sed 's/"cause": "launch"/"cause": "lunch"/' why.json >odd-cause.json
sed 's/^  "time_s": .*/  "time_s": "long",/' why.json >odd-time.json
refused 2 '"lunch" is no cause' report odd-cause.json -o x.html
refused 2 'odd-time.json:' report odd-time.json -o x.html
refused 2 'hm.xml:1:1' report hm.xml -o x.html
refused 2 'a report is HTML' report --json compare.json -o x.html
refused 2 'nothing to work on' report -o x.html
: >empty.db
refused 2 'an empty file, no lab notebook' report empty.db -o x.html
refused 4 'nosuch.json' report nosuch.json -o x.html
exit $bad
