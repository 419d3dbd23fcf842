#!/bin/sh
# The page in a headless Chromium, light and dark, 420 and 1280 wide and on paper: nothing overflows, every letter has
# a contrast of 4.5, keys work, timelines zoom, the console is silent, it prints to PDF, no page is large.
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

"$ccllab" compare -t $cluster -c allgather --sizes 1M:64M:8 --with nccl,ring,hm,direct,recursive,pairwise,hpds,tree,greedy,packing,sketch --json -o compare.json
"$ccllab" simulate -t $cluster -c allgather --with hm --size 16M --json -o run.json --trace run.trace.json
"$ccllab" explain -t $cluster -c allgather --with ring --size 1M --json -o why.json
"$ccllab" tune -q -t $cluster -c allgather --sizes 1M -k with=ring,hm --budget 8runs --notebook none --json -o tune.json
"$ccllab" sweep -q -t $cluster -c allgather --sizes 1M,16M --vary scale:bandwidth:net=2 -k with=ring,hm --budget 6runs --notebook none --json -o sweep.json
"$ccllab" balance -t hetccl-snu --speeds nvidia=2,amd=1 --total 48 --json -o balance.json
printf '# Collective test starting: all_gather_perf\n# nThread 1 nGpus 8\n1073741824 1 half none -1 2900 370 324 0\n' >nccl.log
"$ccllab" diagnose nccl.log -t dgx-h100 --json -o diagnose.json || [ $? -eq 1 ]
"$ccllab" bound -t $cluster -c allgather --size 16M --json -o bound.json
"$ccllab" report compare.json run.json run.trace.json why.json tune.json sweep.json balance.json diagnose.json bound.json -t $cluster -o page.html
[ "$(wc -c <page.html)" -lt 3000000 ] || say "page.html has $(wc -c <page.html) bytes"

# One page that holds the page in frames and looks at it: narrow, wide, as paper is.
frame() { # name width sed-expression
    printf '<iframe id="%s" style="border:0;width:%spx;height:1200px" srcdoc="' "$1" "$2"
    sed -e "$3" -e 's/&/\&amp;/g' -e 's/"/\&quot;/g' page.html
    printf '"></iframe>\n'
}
{
    echo '<!DOCTYPE html><html><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"></head><body>'
    frame narrow 420 's/x/x/'
    frame wide 1280 's/x/x/'
    frame paper 718 's/@media print/@media all/'
    cat <<'END'
<script>
const told = [];
function say(text) { if (told.length < 30) told.push(text); }
function light(colour) { // relative luminance of "rgb(...)"; WCAG 2
  const c = colour.match(/[\d.]+/g).map(Number);
  const v = c.slice(0, 3).map((x) => x / 255).map((x) => x <= 0.03928 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4));
  return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];
}
function clear(colour) { return colour === "transparent" || /, 0\)$/.test(colour); }
function contrast(a, b) { return (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05); }
function behind(win, e) { // colour behind an element
  const box = e.closest("g.gpu, g.switch, g.nic, g.host, g.gpu-small, g.server-small, g.label");
  if (box) return win.getComputedStyle(box.querySelector("rect")).fill;
  for (let p = e; p && p.nodeType === 1; p = p.parentNode) {
    const colour = win.getComputedStyle(p).backgroundColor;
    if (!clear(colour)) return colour;
  }
  return win.getComputedStyle(win.document.body).backgroundColor;
}
let letters = 0;
function audit(name) {
  const win = document.getElementById(name).contentWindow, doc = win.document;
  const width = doc.documentElement.scrollWidth;
  if (width > win.innerWidth) say(name + ": " + width + " wide in " + win.innerWidth);
  doc.body.querySelectorAll("*").forEach(function (e) {
    if (["SCRIPT", "STYLE", "TITLE", "title", "OPTION"].includes(e.tagName)) return;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim())) return;
    if (e.getClientRects().length === 0) return;
    letters++;
    const svg = e.namespaceURI.endsWith("svg");
    const ratio = contrast(svg ? win.getComputedStyle(e).fill : win.getComputedStyle(e).color, behind(win, e));
    if (ratio < 4.5) say(name + ": contrast " + ratio.toFixed(2) + " of " + e.tagName + " \"" + e.textContent.slice(0, 30) + "\"");
  });
  doc.querySelectorAll(".scroll").forEach(function (e) {
    if (e.tabIndex !== 0 || !e.getAttribute("aria-label")) say(name + ": a region that keys do not reach");
    if (name === "paper" && e.scrollWidth > e.clientWidth + 1)
      say("paper cuts " + e.getAttribute("aria-label") + ": " + e.scrollWidth + " in " + e.clientWidth);
  });
  doc.querySelectorAll("canvas, figure svg").forEach((e) => {
    if (e.getAttribute("aria-hidden") !== "true" && !e.getAttribute("aria-label") && !e.closest(".scroll")) say(name + ": a picture without a name");
  });
  doc.querySelectorAll("select").forEach((e) => { if (!e.closest("label")) say(name + ": a choice without a label"); });
  doc.querySelectorAll("nav a").forEach((e) => { if (!doc.querySelector(e.getAttribute("href"))) say(name + ": a link to nothing"); });
}
function key(win, e, name) { e.dispatchEvent(new win.KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true })); }
function curves(win) {
  const figure = win.document.querySelector("figure.curves"), words = () => figure.querySelector(".told").textContent;
  const svg = () => figure.querySelector(".plot svg"), press = (t) => [...figure.querySelectorAll("button")].find((b) => b.textContent === t).click();
  if (figure.querySelectorAll(".plot .curve").length < 9) say("curves are missing");
  key(win, svg(), "ArrowRight");
  if (!/^At 1M: .*hm [\d.]+ GB\/s/.test(words())) say("no values by keys: " + words());
  press("time");
  if (!/time \(us\)/.test(svg().textContent)) say("no time");
  const path = () => svg().querySelector(".curve path").getAttribute("d"), logarithmic = path();
  press("linear");
  if (path() === logarithmic) say("no linear axis");
  svg().dispatchEvent(new win.PointerEvent("pointermove", { clientX: svg().getBoundingClientRect().right - 5, clientY: svg().getBoundingClientRect().top + 5, bubbles: true }));
  if (!/^At 64M: .* us/.test(words())) say("no values by pointer: " + words());
}
function idle(win) {
  const figure = win.document.querySelector("figure.idle"), choice = figure.querySelector("select");
  if (choice.options.length !== 12) say(choice.options.length + " GPUs to choose from");
  choice.value = "0";
  choice.dispatchEvent(new win.Event("change"));
  if (!/^GPU 0:/.test(figure.querySelector(".told").textContent)) say("GPU 0 cannot be chosen");
}
function timeline(win) {
  const canvas = win.document.querySelector("canvas.timeline"), box = canvas.getBoundingClientRect();
  const at = () => [+canvas.dataset.from, +canvas.dataset.to, +canvas.dataset.row], all = at()[1] - at()[0];
  const wheel = (d) => canvas.dispatchEvent(new win.WheelEvent("wheel", { deltaY: d, clientX: box.left + box.width / 2, clientY: box.top + 5, bubbles: true, cancelable: true }));
  function painted() { // colours of the canvas, painted now and not at the next frame
    win.dispatchEvent(new win.Event("beforeprint"));
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
  const near = at()[1] - at()[0], from = at()[0], second = painted();
  if (Math.abs(near / all - Math.pow(0.8, 10)) > 1e-6) say("timeline: no zoom");
  if (first.coloured < 1000 || second.coloured < 1000 || first.sum === second.sum) say("timeline: nothing painted");
  key(win, canvas, "ArrowRight");
  if (Math.abs(at()[0] - from - 0.2 * near) > 1e-6 * all) say("timeline: no move");
  for (let i = 0; i < 30; i++) wheel(100);
  if (at()[0] !== 0 || at()[1] !== all || painted().sum !== first.sum) say("timeline: not all of it again");
  key(win, canvas, "Enter");
  if (!/GPU 0: block 0.* at /.test(win.document.getElementById(canvas.dataset.told).textContent)) say("timeline: keys tell nothing");
  const choice = win.document.querySelector("select.goto");
  if (choice.options.length !== 13) say(choice.options.length + " processes to go to");
}
window.onload = function () {
  ["narrow", "wide", "paper"].forEach(audit);
  const win = document.getElementById("wide").contentWindow;
  curves(win);
  idle(win);
  timeline(win);
  document.body.dataset.dark = light(win.getComputedStyle(win.document.body).backgroundColor) < 0.2;
  document.body.dataset.letters = letters;
  document.body.dataset.told = told.join("; ") || "well";
};
</script>
</body></html>
END
} >driven.html
run() { timeout 200 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" --enable-logging=stderr "$@" 2>log; }
for colours in 0 1; do # dark, light
    run --blink-settings=preferredColorScheme=$colours --window-size=1400,1000 --dump-dom "file://$dir/driven.html" >dom || say "the browser ended with $?"
    grep -q 'data-told="well"' dom || say "colours $colours: $(grep -o 'data-told="[^"]*"' dom | head -n 1)"
    [ "$colours" = 1 ] || grep -q 'data-dark="true"' dom || say "a dark page is light"
    letters=$(sed -n 's/.*data-letters="\([0-9]*\)".*/\1/p' dom | head -n 1)
    [ "${letters:-0}" -gt 1000 ] || say "only ${letters:-no} texts were looked at"
    # Reading pixels back twice is this test's, not the page's.
    if grep -E 'CONSOLE|Uncaught|Refused to' log | grep -v willReadFrequently; then say "the console tells the above"; fi
done
run --print-to-pdf=page.pdf "file://$dir/page.html" || say "printing ended with $?"
[ "$(head -c 5 page.pdf)" = "%PDF-" ] && [ "$(wc -c <page.pdf)" -gt 20000 ] || say "page.pdf is no PDF of a page"
if grep -E 'CONSOLE|Uncaught|Refused to' log; then say "the console tells the above, printing"; fi
exit $bad
