"use strict";
// Curves over size that tell their values, with logarithmic or linear axes, as busbw or time; and thread
// blocks of any GPU of a run. Drawn as SVG in the colours of the page, in place of the picture that stands
// there without scripts. Data: {title, factor, sizes, bound, curves: [{name, busbw}]}, GB/s and bytes; and
// {time, groups: [[id, start, done, busy, data, peer, slot] ...], of: [[rank, group] ...]}, ns.
(function () {
  const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#f0e442", "#999999"];
  const dashes = ["", "3", "9"];
  const NS = "http://www.w3.org/2000/svg";
  let ids = 0;

  function element(parent, name, attributes, text) {
    const e = document.createElementNS(NS, name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  }
  function html(parent, name, properties, text) {
    const e = Object.assign(document.createElement(name), properties);
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  }
  function bytes_text(b) {
    const units = ["", "K", "M", "G", "T"];
    let u = 0;
    while (b >= 1024 && u < 4) { b /= 1024; u++; }
    return +b.toPrecision(4) + units[u];
  }
  function digits(v) {
    return v >= 1000 ? Math.round(v).toString() : (+v.toPrecision(4)).toString();
  }
  function time_text(us) {
    return us >= 1e6 ? digits(us / 1e6) + " s" : us >= 1e3 ? digits(us / 1e3) + " ms" : digits(us) + " us";
  }
  function round_step(raw) {
    const ten = Math.pow(10, Math.floor(Math.log10(raw)));
    return ten * [1, 2, 5, 10].find((s) => ten * s >= raw * 0.999);
  }
  function ticks(least, most, log, n) {
    const out = [];
    if (!log) {
      const step = round_step(most / n);
      for (let v = 0; v <= most * 1.0001; v += step) out.push(+v.toPrecision(6));
      return out;
    }
    const many = Math.log10(most / least);
    const parts = many > 3 ? [1] : many > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
    for (let e = Math.floor(Math.log10(least)); e <= Math.log10(most); e++)
      parts.forEach((p) => {
        const v = p * Math.pow(10, e);
        if (v >= least * 0.999 && v <= most * 1.001) out.push(+v.toPrecision(6));
      });
    return out;
  }

  function curves(figure) {
    const data = JSON.parse(document.getElementById(figure.dataset.source).textContent);
    const all = data.curves.map((c, i) => ({ name: c.name, busbw: c.busbw, colour: colours[i % 8], dash: dashes[Math.floor(i / 8) % 3] }));
    if (data.bound) all.unshift({ name: "bound", busbw: data.bound, colour: "var(--ink)", dash: "6", bound: true });
    const state = { time: false, log: true, logx: true, at: -1 };
    const values = (c) => c.busbw.map((b, i) => b === null ? null : state.time ? data.sizes[i] * data.factor / b / 1e3 : b);
    const still = figure.querySelector(".scroll");
    still.remove();
    const tools = html(figure, "div", { className: "tools" });
    tools.setAttribute("role", "toolbar");
    tools.setAttribute("aria-label", "What the curves show");
    const buttons = [];
    function button(text, is, set) {
      const b = html(tools, "button", { type: "button" }, text);
      b.addEventListener("click", function () { set(); draw(); });
      buttons.push([b, is]);
    }
    button("busbw", () => !state.time, () => { state.time = false; });
    if (data.factor > 0) button("time", () => state.time, () => { state.time = true; });
    button("logarithmic", () => state.log, () => { state.log = true; });
    button("linear", () => !state.log, () => { state.log = false; });
    button("linear sizes", () => !state.logx, () => { state.logx = !state.logx; });
    const holder = html(figure, "div", { className: "plot" });
    const legend = html(figure, "ul", { className: "legend" });
    all.forEach(function (c) {
      const item = html(legend, "li", {});
      const swatch = element(item, "svg", { width: 28, height: 10, "aria-hidden": "true" });
      element(swatch, "path", { d: "M0 5H28", style: "stroke:" + c.colour, "stroke-width": 2.5, "stroke-dasharray": c.dash });
      item.appendChild(document.createTextNode(" " + (c.bound ? "bound: proven, none can be better" : c.name)));
    });
    const told = html(figure, "p", { className: "told", id: "tell" + ids++ });
    told.setAttribute("aria-live", "polite");

    function tell() {
      const i = state.at;
      told.textContent = "";
      if (i < 0) {
        told.textContent = "Point at a size, or press the arrow keys, to read values.";
        return;
      }
      const list = all.map((c) => [c, values(c)[i]]).filter((p) => p[1] !== null);
      list.sort((a, b) => state.time ? a[1] - b[1] : b[1] - a[1]);
      told.textContent = "At " + bytes_text(data.sizes[i]) + ": " +
        list.map((p) => p[0].name + " " + (state.time ? time_text(p[1]) : digits(p[1]) + " GB/s")).join(", ");
    }
    function draw() {
      const w = Math.max(280, Math.min(1180, figure.clientWidth || 640)), h = Math.max(260, Math.min(420, w * 0.42));
      const left = 58, right = 12, top = 12, bottom = 44;
      buttons.forEach((b) => b[0].setAttribute("aria-pressed", b[1]()));
      holder.textContent = "";
      const svg = element(holder, "svg", {
        width: w, height: h, viewBox: "0 0 " + w + " " + h, tabindex: "0", role: "img", "font-size": 11,
        "aria-label": data.title + ": " + (state.time ? "time" : "busbw") + " over size; the table has the values",
        "aria-describedby": told.id
      });
      let least = Infinity, most = 0;
      all.forEach((c) => values(c).forEach((v) => { if (v !== null && v > 0) { least = Math.min(least, v); most = Math.max(most, v); } }));
      if (!(most > 0)) return;
      least *= 0.92;
      most *= 1.08;
      const x0 = state.logx ? Math.log2(data.sizes[0]) : 0, x1 = state.logx ? Math.log2(data.sizes[data.sizes.length - 1]) : data.sizes[data.sizes.length - 1];
      const px = (s) => data.sizes.length < 2 ? (left + w - right) / 2 : left + ((state.logx ? Math.log2(s) : s) - x0) / (x1 - x0) * (w - left - right);
      const py = (v) => top + (h - top - bottom) * (1 - (state.log ? Math.log(v / least) / Math.log(most / least) : v / most));
      ticks(state.log ? least : 0, most, state.log, 6).forEach(function (v) {
        element(svg, "path", { d: "M" + left + " " + py(v) + "H" + (w - right), style: "stroke:var(--grid)" });
        element(svg, "text", { x: left - 6, y: py(v) + 4, "text-anchor": "end", style: "fill:var(--ink)" }, digits(v));
      });
      let free = -1e9;
      data.sizes.forEach(function (s, i) {
        const at = px(s);
        if (at < free && i < data.sizes.length - 1) return;
        free = at + 44;
        element(svg, "path", { d: "M" + at + " " + top + "V" + (h - bottom + 4), style: "stroke:var(--grid)" });
        element(svg, "text", { x: at, y: h - bottom + 17, "text-anchor": i === data.sizes.length - 1 && i > 0 ? "end" : i === 0 ? "start" : "middle", style: "fill:var(--ink)" }, bytes_text(s));
      });
      element(svg, "path", { d: "M" + left + " " + top + "V" + (h - bottom) + "H" + (w - right), style: "stroke:var(--ink);fill:none" });
      element(svg, "text", { x: (left + w) / 2, y: h - 8, "text-anchor": "middle", style: "fill:var(--ink)" }, "size (bytes; K, M, G are 2^10, 2^20, 2^30)");
      element(svg, "text", { x: 13, y: (h - bottom) / 2, "text-anchor": "middle", transform: "rotate(-90 13 " + (h - bottom) / 2 + ")", style: "fill:var(--ink)" }, state.time ? "time (us)" : "busbw (GB/s)");
      all.forEach(function (c) {
        let d = "", on = false;
        const v = values(c);
        v.forEach(function (value, i) {
          const there = value !== null && value > 0;
          if (there) d += (on ? "L" : "M") + px(data.sizes[i]).toFixed(1) + " " + py(value).toFixed(1);
          on = there;
        });
        const g = element(svg, "g", { class: c.bound ? "bound" : "curve" });
        element(g, "title", {}, c.name);
        element(g, "path", { d: d, style: "fill:none;stroke:" + c.colour, "stroke-width": 2, "stroke-dasharray": c.dash });
        if (!c.bound) v.forEach((value, i) => { if (value !== null && value > 0) element(g, "circle", { cx: px(data.sizes[i]), cy: py(value), r: 3, style: "fill:" + c.colour }); });
      });
      const mark = element(svg, "path", { style: "stroke:var(--dim);stroke-dasharray:3" });
      function show() {
        mark.setAttribute("d", state.at < 0 ? "" : "M" + px(data.sizes[state.at]) + " " + top + "V" + (h - bottom));
        tell();
      }
      svg.addEventListener("pointermove", function (e) {
        const x = (e.clientX - svg.getBoundingClientRect().left) * w / svg.getBoundingClientRect().width;
        let best = 0;
        data.sizes.forEach((s, i) => { if (Math.abs(px(s) - x) < Math.abs(px(data.sizes[best]) - x)) best = i; });
        state.at = best;
        show();
      });
      svg.addEventListener("keydown", function (e) {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
        if (!step) return;
        e.preventDefault();
        state.at = Math.min(Math.max(state.at + step, 0), data.sizes.length - 1);
        show();
      });
      show();
    }
    figure.addEventListener("redraw", draw);
    draw();
  }

  function idle(figure) {
    const data = JSON.parse(document.getElementById(figure.dataset.source).textContent);
    const states = [["busy", "#0072b2", 3], ["waits for data", "#e69f00", 4], ["waits for another block of its GPU", "#cc79a7", 5], ["waits for a free slot", "#009e73", 6]];
    figure.querySelector(".scroll").remove();
    const tools = html(figure, "div", { className: "tools" });
    const label = html(tools, "label", {}, "GPU ");
    const choice = html(label, "select", {});
    const alike = data.groups.map((g, i) => data.of.filter((p) => p[1] === i).length);
    let fullest = 0;
    data.of.forEach(function (p, i) {
      html(choice, "option", { value: i }, p[0] + (alike[p[1]] > 1 ? " (" + alike[p[1]] + " are alike)" : ""));
      if (data.groups[p[1]].length > data.groups[data.of[fullest][1]].length) fullest = i;
    });
    choice.value = fullest;
    const holder = html(figure, "div", { className: "plot" });
    const told = html(figure, "p", { className: "told" });
    told.setAttribute("aria-live", "polite");
    function draw() {
      const w = Math.max(280, Math.min(1180, figure.clientWidth || 640)), h = 230, left = 58, top = 10, bottom = 40;
      const blocks = data.groups[data.of[+choice.value][1]];
      const unit = data.time >= 2e6 ? [1e6, "ms"] : [1e3, "us"];
      const pitch = Math.min(56, (w - left - 8) / blocks.length);
      const y = (t) => top + (h - top - bottom) * (1 - t / data.time);
      holder.textContent = "";
      const svg = element(holder, "svg", { width: w, height: h, viewBox: "0 0 " + w + " " + h, role: "img", "font-size": 11, "aria-label": "Thread blocks of GPU " + data.of[+choice.value][0] + ": busy and waiting" });
      ticks(0, data.time / unit[0], false, 6).forEach(function (v) {
        element(svg, "path", { d: "M" + left + " " + y(v * unit[0]) + "H" + w, style: "stroke:var(--grid)" });
        element(svg, "text", { x: left - 6, y: y(v * unit[0]) + 4, "text-anchor": "end", style: "fill:var(--ink)" }, digits(v));
      });
      let idled = 0, free = -1e9;
      blocks.forEach(function (b, i) {
        const x = left + i * pitch;
        let at = b[1];
        const g = element(svg, "g", { class: "block" });
        const words = states.map((s) => b[s[2]] > 0 ? s[0] + " " + time_text(b[s[2]] / 1e3) : "").filter((s) => s).join(", ");
        element(g, "title", {}, "block " + b[0] + ": " + words);
        states.forEach(function (s) {
          element(g, "rect", { x: x, width: pitch > 4 ? pitch - 1 : pitch, y: y(at + b[s[2]]), height: Math.max(0, y(at) - y(at + b[s[2]])), fill: s[1] });
          at += b[s[2]];
        });
        if (b[2] > b[1]) idled += (b[4] + b[5] + b[6]) / (b[2] - b[1]);
        if (x >= free) element(svg, "text", { x: x + pitch / 2, y: h - bottom + 15, "text-anchor": "middle", style: "fill:var(--ink)" }, b[0]);
        if (x >= free) free = x + 22;
        g.addEventListener("pointerenter", () => { told.textContent = "Block " + b[0] + ": " + words; });
      });
      element(svg, "path", { d: "M" + left + " " + y(data.time) + "H" + w, style: "stroke:var(--ink);stroke-dasharray:4" });
      element(svg, "path", { d: "M" + left + " " + top + "V" + (h - bottom) + "H" + w, style: "stroke:var(--ink);fill:none" });
      element(svg, "text", { x: 13, y: (h - bottom) / 2, "text-anchor": "middle", transform: "rotate(-90 13 " + (h - bottom) / 2 + ")", style: "fill:var(--ink)" }, "time (" + unit[1] + ")");
      element(svg, "text", { x: (left + w) / 2, y: h - 8, "text-anchor": "middle", style: "fill:var(--ink)" }, "thread block");
      told.textContent = "GPU " + data.of[+choice.value][0] + ": " + blocks.length + " thread blocks, idle " +
        digits(100 * idled / Math.max(1, blocks.length)) + " % of their life on average; dashed: the end of the run.";
    }
    choice.addEventListener("change", draw);
    figure.addEventListener("redraw", draw);
    draw();
  }

  document.querySelectorAll("figure.curves").forEach(curves);
  document.querySelectorAll("figure.idle").forEach(idle);
  function redraw() {
    document.querySelectorAll("figure.curves, figure.idle").forEach((f) => f.dispatchEvent(new Event("redraw")));
  }
  window.addEventListener("resize", redraw);
})();
