"use strict";
// Timelines that zoom (wheel, + and -), pan (drag, arrows) and tell what is under the pointer. The data
// are {time, names, rows: [{of, name, spans: [start, length, state, name, ...]}], alike: [rows that are folded into
// each], processes: [[name, row] ...]}, times in ns. States: busy, waits for data, a block, a slot; network; other.
(function () {
  const colours = ["#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#7f7f7f"];
  const bottom = 22, row_px = 14;
  let paper = false;

  // Colours of the page, those of paper while it prints.
  function page_colour(name, printed) {
    return paper ? printed : getComputedStyle(document.documentElement).getPropertyValue(name).trim() || printed;
  }

  function time_text(ns) {
    const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
    const unit = units.find((u) => Math.abs(ns) >= u[0]) || units[3];
    return +(ns / unit[0]).toPrecision(6) + " " + unit[1];
  }

  function start(canvas) {
    const data = JSON.parse(document.getElementById(canvas.dataset.source).textContent);
    const told = document.getElementById(canvas.dataset.told);
    const view = { from: 0, to: data.time, row: 0 };
    const least = data.time / 1e6;
    let wanted = false, left = 210;
    const names = data.rows.map((r, i) => (r.of ? r.of.replace(/ \(.*\)$/, "") + ": " : "") + r.name +
      (data.alike[i] ? " (+" + data.alike[i] + " alike)" : ""));

    function shown_rows() {
      return Math.max(1, Math.floor((canvas.clientHeight - bottom) / row_px));
    }
    function clamp() {
      const span = Math.min(Math.max(view.to - view.from, least), data.time);
      view.from = Math.min(Math.max(view.from, 0), data.time - span);
      view.to = view.from + span;
      view.row = Math.min(Math.max(view.row, 0), Math.max(0, data.rows.length - shown_rows()));
      canvas.dataset.from = view.from;
      canvas.dataset.to = view.to;
      canvas.dataset.row = view.row;
    }
    // The first span of a row that ends after t.
    function first(spans, t) {
      let low = 0, high = spans.length / 4;
      while (low < high) {
        const mid = (low + high) >> 1;
        if (spans[4 * mid] + spans[4 * mid + 1] <= t) low = mid + 1;
        else high = mid;
      }
      return low;
    }
    function draw() {
      wanted = false;
      clamp();
      const ratio = window.devicePixelRatio || 1;
      const w = canvas.clientWidth, h = canvas.clientHeight;
      left = Math.min(330, Math.round(w * 0.32));
      const ink = page_colour("--ink", "#222222"), back = page_colour("--bg", "#ffffff");
      canvas.width = w * ratio;
      canvas.height = h * ratio;
      const c = canvas.getContext("2d");
      c.scale(ratio, ratio);
      c.fillStyle = back;
      c.fillRect(0, 0, w, h);
      c.font = "10px 'DejaVu Sans', Verdana, sans-serif";
      c.textBaseline = "middle";
      const scale = (w - left) / (view.to - view.from);
      const end = Math.min(data.rows.length, Math.ceil(view.row + shown_rows()));
      for (let r = Math.floor(view.row); r < end; r++) {
        const spans = data.rows[r].spans;
        const y = (r - Math.floor(view.row)) * row_px;
        let drawn = left;
        for (let i = first(spans, view.from); 4 * i < spans.length; i++) {
          const at = left + (spans[4 * i] - view.from) * scale;
          if (at > w) break;
          const to = Math.max(at + spans[4 * i + 1] * scale, at + 1);
          if (to <= drawn + 0.5) continue; // less than a pixel, and one is there
          c.fillStyle = colours[spans[4 * i + 2] % colours.length];
          c.fillRect(Math.max(at, drawn), y + 1, to - Math.max(at, drawn), row_px - 2);
          drawn = to;
        }
        c.fillStyle = back;
        c.fillRect(0, y, left, row_px);
        c.fillStyle = ink;
        c.textAlign = "right";
        c.fillText(fitted(c, names[r]), left - 6, y + row_px / 2);
      }
      const axis = h - bottom + 4;
      c.fillStyle = ink;
      c.fillRect(left, axis, w - left, 1);
      const raw = (view.to - view.from) / Math.max(2, (w - left) / 130);
      const ten = Math.pow(10, Math.floor(Math.log10(raw)));
      const step = ten * [1, 2, 5, 10].find((s) => ten * s >= raw);
      for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
        const x = left + (t - view.from) * scale;
        c.fillRect(x, axis, 1, 4);
        c.textAlign = x > w - 40 ? "right" : "center";
        c.fillText(time_text(t), x, axis + 11);
      }
    }
    // As much of a name as there is room for.
    function fitted(c, text) {
      if (c.measureText(text).width <= left - 10) return text;
      while (text.length > 3 && c.measureText(text + "...").width > left - 10) text = text.slice(0, -1);
      return text + "...";
    }
    function redraw() {
      clamp();
      if (!wanted) {
        wanted = true;
        window.requestAnimationFrame(draw);
      }
    }
    function time_at(x) {
      return view.from + ((x - left) / (canvas.clientWidth - left)) * (view.to - view.from);
    }
    function zoom(factor, x) {
      const t = time_at(x);
      const span = Math.min(Math.max((view.to - view.from) * factor, least), data.time);
      const share = (t - view.from) / (view.to - view.from);
      view.from = t - share * span;
      view.to = view.from + span;
      redraw();
    }
    function pan(share, rows) {
      const shift = share * (view.to - view.from);
      view.from += shift;
      view.to += shift;
      view.row += rows;
      redraw();
    }
    canvas.addEventListener("wheel", function (e) {
      e.preventDefault();
      if (e.shiftKey) pan(0, Math.sign(e.deltaY || e.deltaX) * 3);
      else zoom(e.deltaY < 0 ? 0.8 : 1.25, Math.max(left, e.offsetX));
    }, { passive: false });
    let held = null;
    canvas.addEventListener("pointerdown", function (e) {
      held = { x: e.offsetX, y: e.offsetY, from: view.from, to: view.to, row: view.row };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointerup", function () { held = null; });
    canvas.addEventListener("pointermove", function (e) {
      if (held) {
        const span = held.to - held.from;
        view.from = held.from - ((e.offsetX - held.x) / (canvas.clientWidth - left)) * span;
        view.to = view.from + span;
        view.row = held.row - (e.offsetY - held.y) / row_px;
        redraw();
        return;
      }
      tell(Math.floor(view.row) + Math.floor(e.offsetY / row_px), time_at(e.offsetX),
        e.offsetX >= left && e.offsetY <= canvas.clientHeight - bottom);
    });
    function tell(at, t, inside) {
      const row = data.rows[at];
      told.textContent = "";
      if (!row || !inside) return;
      const i = first(row.spans, t);
      const on = 4 * i < row.spans.length && row.spans[4 * i] <= t;
      told.textContent = names[at] + " at " + time_text(t) + ": " +
        (on ? data.names[row.spans[4 * i + 3]] + ", " + time_text(row.spans[4 * i]) + " to " +
          time_text(row.spans[4 * i] + row.spans[4 * i + 1]) : "nothing");
    }
    canvas.addEventListener("dblclick", function () {
      view.from = 0;
      view.to = data.time;
      redraw();
    });
    canvas.addEventListener("keydown", function (e) {
      const middle = (left + canvas.clientWidth) / 2;
      const keys = {
        "+": () => zoom(0.5, middle), "-": () => zoom(2, middle), "0": () => zoom(1e9, middle),
        ArrowLeft: () => pan(-0.2, 0), ArrowRight: () => pan(0.2, 0),
        ArrowUp: () => pan(0, -1), ArrowDown: () => pan(0, 1), PageUp: () => pan(0, -shown_rows()),
        PageDown: () => pan(0, shown_rows()), Home: () => pan(0, -data.rows.length), End: () => pan(0, data.rows.length),
        Enter: () => tell(Math.floor(view.row), time_at(middle), true)
      };
      if (!keys[e.key]) return;
      e.preventDefault();
      keys[e.key]();
    });
    canvas.style.height = Math.min(620, data.rows.length * row_px + bottom) + "px";
    window.addEventListener("resize", redraw);
    window.addEventListener("beforeprint", function () { paper = true; draw(); });
    window.addEventListener("afterprint", function () { paper = false; draw(); });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    const choice = document.querySelector('select.goto[data-canvas="' + canvas.id + '"]');
    data.processes.forEach(function (p) {
      const option = document.createElement("option");
      option.value = p[1];
      option.textContent = p[0];
      choice.appendChild(option);
    });
    choice.addEventListener("change", function () {
      view.row = +choice.value;
      redraw();
    });
    draw();
  }
  document.querySelectorAll("canvas.timeline").forEach(start);
})();
