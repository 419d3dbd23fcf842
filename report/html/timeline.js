"use strict";
// Timelines that zoom (wheel, + and -), pan (drag, arrows) and tell what is under the pointer. The data
// are {time, rows: [{name, spans: [start, length, kind, ...]}], kinds: [name, ...]}, times in ns.
(function () {
  const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#f0e442", "#999999"];
  const left = 110, bottom = 22, row_px = 13;

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
    let wanted = false;

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
      let low = 0, high = spans.length / 3;
      while (low < high) {
        const mid = (low + high) >> 1;
        if (spans[3 * mid] + spans[3 * mid + 1] <= t) low = mid + 1;
        else high = mid;
      }
      return low;
    }
    function draw() {
      wanted = false;
      clamp();
      const ratio = window.devicePixelRatio || 1;
      const w = canvas.clientWidth, h = canvas.clientHeight;
      canvas.width = w * ratio;
      canvas.height = h * ratio;
      const c = canvas.getContext("2d");
      c.scale(ratio, ratio);
      c.fillStyle = "#ffffff";
      c.fillRect(0, 0, w, h);
      c.font = "10px 'DejaVu Sans', Verdana, sans-serif";
      c.textBaseline = "middle";
      const scale = (w - left) / (view.to - view.from);
      const end = Math.min(data.rows.length, Math.ceil(view.row + shown_rows()));
      for (let r = Math.floor(view.row); r < end; r++) {
        const spans = data.rows[r].spans;
        const y = (r - Math.floor(view.row)) * row_px;
        let drawn = left;
        for (let i = first(spans, view.from); 3 * i < spans.length; i++) {
          const at = left + (spans[3 * i] - view.from) * scale;
          if (at > w) break;
          const to = Math.max(at + spans[3 * i + 1] * scale, at + 1);
          if (to <= drawn + 0.5) continue; // less than a pixel, and one is there
          c.fillStyle = colours[spans[3 * i + 2] % colours.length];
          c.fillRect(Math.max(at, drawn), y + 1, to - Math.max(at, drawn), row_px - 2);
          drawn = to;
        }
        c.fillStyle = "#ffffff";
        c.fillRect(0, y, left, row_px);
        c.fillStyle = "#222222";
        c.textAlign = "right";
        c.fillText(data.rows[r].name, left - 6, y + row_px / 2, left - 10);
      }
      const axis = h - bottom + 4;
      c.fillStyle = "#222222";
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
      const row = data.rows[Math.floor(view.row) + Math.floor(e.offsetY / row_px)];
      const t = time_at(e.offsetX);
      told.textContent = "";
      if (!row || e.offsetX < left || e.offsetY > canvas.clientHeight - bottom) return;
      const i = first(row.spans, t);
      const inside = 3 * i < row.spans.length && row.spans[3 * i] <= t;
      told.textContent = row.name + " at " + time_text(t) + ": " +
        (inside ? data.kinds[row.spans[3 * i + 2]] + ", " + time_text(row.spans[3 * i]) + " to " +
          time_text(row.spans[3 * i] + row.spans[3 * i + 1]) : "idle");
    });
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
        ArrowUp: () => pan(0, -1), ArrowDown: () => pan(0, 1)
      };
      if (!keys[e.key]) return;
      e.preventDefault();
      keys[e.key]();
    });
    canvas.style.height = Math.min(620, data.rows.length * row_px + bottom) + "px";
    window.addEventListener("resize", redraw);
    window.addEventListener("beforeprint", draw);
    draw();
  }
  document.querySelectorAll("canvas.timeline").forEach(start);
})();
