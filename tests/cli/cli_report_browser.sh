#!/bin/sh
# The page in a headless Chromium: it opens without an error, timelines zoom, it prints to PDF.
# Skipped where there is no Chromium. Usage: cli_report_browser.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
bad=0
say() { echo "$*"; bad=1; }
cluster=heteccl-h20-4+8

"$ccllab" compare -t $cluster -c allgather --sizes 1M:16M:4 --with ring,hm --json -o compare.json
"$ccllab" synth -t $cluster -c allgather --with hm --size 16M -q -o hm.xml
"$ccllab" simulate -t $cluster hm.xml --size 16M --json -o run.json --trace run.trace.json
"$ccllab" report compare.json run.json run.trace.json -t $cluster -o page.html

# A script of the test's own behind the page's: zoom in at the middle, move, zoom out.
sed '/^<\/body>/d' page.html >driven.html
cat >>driven.html <<'END'
<script>
const canvas = document.querySelector("canvas.timeline"), told = [];
const box = canvas.getBoundingClientRect();
const all = canvas.dataset.to - canvas.dataset.from;
function wheel(deltaY) {
  canvas.dispatchEvent(new WheelEvent("wheel", {
    deltaY: deltaY, clientX: box.left + box.width / 2, clientY: box.top + 5, bubbles: true, cancelable: true }));
}
function key(name) { canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true })); }
function painted() { // colours of the canvas, painted now and not at the next frame
  window.dispatchEvent(new Event("beforeprint"));
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let sum = 0, coloured = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    if (pixels[i] !== pixels[i + 2]) coloured++;
    sum = (sum * 31 + pixels[i] + 7 * pixels[i + 1] + 49 * pixels[i + 2]) % 1000003;
  }
  return { sum: sum, coloured: coloured };
}
const first = painted();
for (let i = 0; i < 10; i++) wheel(-100);
const near = canvas.dataset.to - canvas.dataset.from, from = +canvas.dataset.from;
told.push("zoom " + (Math.abs(near / all - Math.pow(0.8, 10)) < 1e-6));
const second = painted();
told.push("paint " + (first.coloured > 1000 && second.coloured > 1000 && first.sum !== second.sum));
key("ArrowRight");
told.push("pan " + (Math.abs(canvas.dataset.from - from - 0.2 * near) < 1e-6 * all));
for (let i = 0; i < 30; i++) wheel(100);
told.push("out " + (canvas.dataset.to - canvas.dataset.from === all && +canvas.dataset.from === 0));
told.push("again " + (painted().sum === first.sum));
document.body.dataset.told = told.join(", ");
</script>
</body></html>
END
run() { timeout 100 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" --enable-logging=stderr "$@" 2>log; }
run --dump-dom "file://$dir/driven.html" >dom || say "the browser ended with $?"
grep -q 'data-told="zoom true, paint true, pan true, out true, again true"' dom || say "timeline: $(grep -o 'data-told="[^"]*"' dom)"
# Reading pixels back twice is this test's, not the page's.
if grep -E 'CONSOLE|Uncaught|Refused to' log | grep -v willReadFrequently; then say "the console tells the above"; fi
run --print-to-pdf=page.pdf "file://$dir/page.html" || say "printing ended with $?"
[ "$(head -c 5 page.pdf)" = "%PDF-" ] && [ "$(wc -c <page.pdf)" -gt 20000 ] || say "page.pdf is no PDF of a page"
if grep -E 'CONSOLE|Uncaught|Refused to' log; then say "the console tells the above, printing"; fi
exit $bad
