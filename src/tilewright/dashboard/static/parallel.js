// Parallel coordinates on a canvas: a line a row, over an axis a dimension and one for the value that colours them.
// Each axis is a slider that chooses a range of values, by mouse or by keyboard.
import { css, el, onWidth, say, trialAddress } from "./dom.js";
import { show, shortened } from "./units.js";

const TOP = 52;
const BOTTOM = 16;
const SIDE = 46;
const NARROWEST = 74;
const SHADES = 16;
const STOPS = 21;

export class ParallelPlot {
  busy = false;
  #chart;
  #axes = [];
  #brushes = new Map();
  #order = [];
  #at = null;

  /** @param {HTMLElement} host @param {HTMLElement} tools @param {number} height */
  constructor(host, tools, height) {
    this.host = host;
    this.height = Math.max(height, 260);
    this.lines = el("canvas", { role: "img" });
    this.marked = el("canvas", { class: "marked", "aria-hidden": "true" });
    this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.sliders = el("div", {});
    this.surface = el("div", {
      class: "surface", role: "application", tabindex: 0, "aria-roledescription": "chart",
      keydown: (e) => this.#key(e), blur: () => this.#mark(null), pointermove: (e) => this.#hover(e),
      pointerleave: () => document.activeElement !== this.surface && this.#mark(null), click: (e) => this.#click(e),
    }, this.lines, this.marked); // prettier-ignore
    this.inside = el("div", { class: "parallel" }, this.surface, this.sliders, this.tip);
    this.host.replaceChildren(this.inside);
    this.clear = el("button", { type: "button", hidden: true, click: () => {
      this.#brushes.clear();
      this.#brushed();
      this.surface.focus();
    } }, "Clear choices"); // prettier-ignore
    this.count = el("span", { class: "count" });
    this.ends = [el("span", {}), el("span", {})];
    const ramp = el("span", { class: "rampkey" }, this.ends[0], el("span", { class: "ramp", "aria-hidden": "true" }), this.ends[1]);
    tools.replaceChildren(ramp, this.count, this.clear);
    onWidth(host, () => this.#chart && this.#layout());
  }

  update(chart) {
    const names = this.#axes.map((a) => a.name).join("\n");
    const held = this.#at === null ? null : this.#chart.trials[this.#at];
    this.#mark(null);
    this.#chart = chart;
    this.#axes = chart.dimensions.map((d, k) => ({
      name: d.name, stops: d.values.length, text: (i) => d.values[i], at: chart.rows.map((row) => part(row[k], d.values.length)),
    })); // prettier-ignore
    const finite = chart.colour.filter((v) => v !== null && (chart.axis.scale !== "log" || v > 0));
    const [low, high] = [Math.min(...finite), Math.max(...finite)];
    const log = chart.axis.scale === "log";
    const share = (v) => (high === low ? 0 : log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
    const value = (p) => (log ? low * (high / low) ** p : low + p * (high - low));
    // The best is at the top of its axis: less is better.
    this.worth = chart.colour.map((v) => (v === null || (log && v <= 0) ? NaN : share(v)));
    this.#axes.push({
      name: chart.axis.label, stops: STOPS, text: (i) => show(value(1 - i / (STOPS - 1)), chart.axis.unit),
      at: this.worth.map((p) => 1 - p), worth: true,
    }); // prettier-ignore
    this.ends[0].textContent = `${show(finite.length ? low : null, chart.axis.unit)} (best)`;
    this.ends[1].textContent = show(finite.length ? high : null, chart.axis.unit);
    // Worst first, so that the best is drawn over the others; without a value before all.
    this.#order = chart.rows.map((_, i) => i).sort((a, b) => (isNaN(this.worth[b]) ? 2 : this.worth[b]) - (isNaN(this.worth[a]) ? 2 : this.worth[a]));
    this.surface.setAttribute("aria-label", `${chart.title}. Arrow keys move over the rows, from the best, Enter opens the trial. Each axis after this can be narrowed.`);
    this.lines.setAttribute("aria-label", chart.alt || chart.title);
    if (names !== this.#axes.map((a) => a.name).join("\n")) this.sliders.replaceChildren(...this.#axes.map((axis) => this.#slider(axis)));
    else [...this.sliders.children].forEach((slider, k) => (this.#axes[k].slider = slider));
    this.#layout();
    const now = held ? chart.trials.findIndex(([run, number]) => run === held[0] && number === held[1]) : -1;
    if (now >= 0) this.#mark(now);
  }

  redraw() {
    this.#draw();
  }

  #layout() {
    const width = Math.max(this.host.clientWidth, (this.#axes.length - 1) * NARROWEST + 2 * SIDE);
    if (!this.host.clientWidth) return;
    this.inside.style.width = `${width}px`;
    this.inside.style.height = `${this.height}px`;
    this.width = width;
    const gap = (width - 2 * SIDE) / Math.max(1, this.#axes.length - 1);
    this.#axes.forEach((axis, k) => {
      axis.x = SIDE + k * gap;
      axis.slider.style.left = `${axis.x}px`;
      axis.slider.style.height = `${this.height}px`;
      // Neighbours' names stand at two heights, so that each has the room of two.
      axis.slider.firstChild.style.maxWidth = `${Math.max(60, gap * 1.9)}px`;
      axis.slider.firstChild.style.top = k % 2 ? "20px" : "0";
    });
    for (const canvas of [this.lines, this.marked]) {
      canvas.width = width * devicePixelRatio;
      canvas.height = this.height * devicePixelRatio;
    }
    this.#brushed();
    if (this.#at !== null) this.#mark(this.#at);
  }

  #y = (p) => this.height - BOTTOM - p * (this.height - TOP - BOTTOM);

  #slider(axis) {
    const slider = el("div", {
      class: "axis", role: "slider", tabindex: 0, "aria-label": axis.name, "aria-orientation": "vertical",
      keydown: (e) => this.#narrow(e, slider.axis()), pointerdown: (e) => this.#drag(e, slider.axis()),
    }, el("span", { class: "name", "aria-hidden": "true", title: axis.name }, axis.name), el("span", { class: "brush", hidden: true })); // prettier-ignore
    slider.axis = () => this.#axes.find((a) => a.slider === slider);
    axis.slider = slider;
    return slider;
  }

  /** Sets what an axis lets through, as stops from and to (null: everything). */
  #brush(axis, range) {
    if (range) this.#brushes.set(axis.name, range.map((i) => Math.min(axis.stops - 1, Math.max(0, i)))); // prettier-ignore
    else this.#brushes.delete(axis.name);
    this.#brushed();
  }

  #brushed() {
    this.shown = this.#chart.rows.map(() => true);
    for (const axis of this.#axes) {
      const range = this.#brushes.get(axis.name);
      const half = 0.5 / Math.max(1, axis.stops - 1);
      const [low, high] = range ? [part(range[0], axis.stops) - half, part(range[1], axis.stops) + half] : [-1, 2];
      if (range) axis.at.forEach((p, i) => (p >= low - 1e-9 && p <= high + 1e-9) || (this.shown[i] = false));
      const [slider, bar] = [axis.slider, axis.slider.lastChild];
      bar.hidden = !range;
      bar.style.top = `${this.#y(Math.min(1, high)) - 5}px`;
      bar.style.height = `${this.#y(Math.max(0, low)) - this.#y(Math.min(1, high)) + 10}px`;
      slider.setAttribute("aria-valuemin", 0);
      slider.setAttribute("aria-valuemax", axis.stops - 1);
      slider.setAttribute("aria-valuenow", range?.[0] ?? 0);
      slider.setAttribute("aria-valuetext", range ? this.#said(axis, range) : "all values");
    }
    const left = this.shown.filter(Boolean).length;
    const all = this.shown.length;
    this.count.textContent = left === all ? `${all} rows` : `${left} of ${all} rows`;
    this.clear.hidden = !this.#brushes.size;
    this.#draw();
  }

  #said = (axis, [from, to]) => (from === to ? axis.text(from) : `${axis.text(from)} to ${axis.text(to)}`);

  #narrow(e, axis) {
    const now = this.#brushes.get(axis.name);
    const step = { ArrowUp: 1, ArrowDown: -1 }[e.key];
    const side = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (step && !now) this.#brush(axis, step > 0 ? [0, 0] : [axis.stops - 1, axis.stops - 1]);
    else if (step && e.shiftKey) this.#brush(axis, [Math.min(now[0], now[1] + step), Math.max(now[0], now[1] + step)]);
    else if (step && now[step > 0 ? 1 : 0] + step >= 0 && now[step > 0 ? 1 : 0] + step < axis.stops) this.#brush(axis, [now[0] + step, now[1] + step]);
    else if (["Escape", "Delete", "Backspace"].includes(e.key)) this.#brush(axis, null);
    else if (side) this.#axes[this.#axes.indexOf(axis) + side]?.slider.focus();
    else if (!step) return;
    e.preventDefault();
    if (!side) say(this.count.textContent);
  }

  #drag(e, axis) {
    if (e.button) return;
    const before = this.#brushes.get(axis.name);
    const top = this.inside.getBoundingClientRect().top;
    const stop = (event) => Math.round(((this.height - BOTTOM - (event.clientY - top)) / (this.height - TOP - BOTTOM)) * (axis.stops - 1));
    const from = stop(e);
    let moved = false;
    this.busy = true;
    axis.slider.setPointerCapture(e.pointerId);
    const move = (event) => {
      moved ||= Math.abs(event.clientY - e.clientY) > 4;
      if (moved) this.#brush(axis, [from, stop(event)].sort((a, b) => a - b));
    };
    const up = (event) => {
      this.busy = false;
      axis.slider.removeEventListener("pointermove", move);
      // A click chooses the value below it, and again gives it up.
      if (!moved && event.type === "pointerup") this.#brush(axis, before ? null : [from, from]);
    };
    axis.slider.addEventListener("pointermove", move);
    for (const end of ["pointerup", "pointercancel"]) axis.slider.addEventListener(end, up, { once: true });
  }

  #draw() {
    if (!this.width) return;
    const ctx = this.lines.getContext("2d");
    ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    ctx.clearRect(0, 0, this.width, this.height);
    // One path a shade, so that thousands of lines take a few strokes.
    const [faint, paths] = [new Path2D(), Array.from({ length: SHADES + 1 }, () => new Path2D())];
    const shade = (i) => (isNaN(this.worth[i]) ? SHADES : Math.min(SHADES - 1, Math.floor(this.worth[i] * SHADES)));
    for (const i of this.#order) this.#trace(this.shown[i] ? paths[shade(i)] : faint, i);
    const many = this.#order.length > 300;
    ctx.lineJoin = "round";
    ctx.globalAlpha = 0.3;
    ctx.lineWidth = 1;
    ctx.strokeStyle = css("--grid");
    ctx.stroke(faint);
    for (const k of [SHADES, ...Array.from({ length: SHADES }, (_, j) => SHADES - 1 - j)]) {
      ctx.globalAlpha = (many ? 0.45 : 0.7) + 0.3 * (1 - k / SHADES);
      ctx.lineWidth = k < 2 ? 2 : many ? 1 : 1.5;
      ctx.strokeStyle = k === SHADES ? css("--muted") : ramp(k / (SHADES - 1));
      ctx.setLineDash(k === SHADES ? [3, 3] : []);
      ctx.stroke(paths[k]);
    }
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
    this.#scales(ctx);
  }

  #scales(ctx) {
    const [ink, halo] = [css("--ink"), css("--surface")];
    ctx.font = `11px ${getComputedStyle(this.host).fontFamily}`;
    ctx.textBaseline = "middle";
    const most = Math.floor((this.height - TOP - BOTTOM) / 18);
    for (const axis of this.#axes) {
      ctx.strokeStyle = css("--axis");
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(axis.x, this.#y(1) - 4);
      ctx.lineTo(axis.x, this.#y(0) + 4);
      const every = axis.worth ? 5 : Math.max(1, Math.ceil((axis.stops - 1) / most));
      const last = axis === this.#axes.at(-1);
      for (let i = 0; i < axis.stops; i += every) {
        const [y, text] = [this.#y(part(i, axis.stops)), shortened(axis.text(i))];
        ctx.moveTo(axis.x - 3, y);
        ctx.lineTo(axis.x + 3, y);
        ctx.save();
        [ctx.lineWidth, ctx.lineJoin, ctx.strokeStyle, ctx.fillStyle] = [3.5, "round", halo, ink];
        ctx.textAlign = last ? "right" : "left";
        ctx.strokeText(text, axis.x + (last ? -6 : 6), y);
        ctx.fillText(text, axis.x + (last ? -6 : 6), y);
        ctx.restore();
      }
      ctx.stroke();
    }
  }

  #trace(path, row) {
    let begun = false;
    for (const axis of this.#axes) {
      const y = this.#y(axis.at[row]);
      if (isNaN(y)) continue;
      if (begun) path.lineTo(axis.x, y);
      else path.moveTo(axis.x, y);
      begun = true;
    }
  }

  #nearest(e) {
    const box = this.inside.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    const k = this.#axes.findIndex((axis, j) => j > 0 && x <= axis.x);
    if (k < 1 || x < this.#axes[0].x) return null;
    const [a, b] = [this.#axes[k - 1], this.#axes[k]];
    const t = (x - a.x) / (b.x - a.x);
    let [best, found] = [10, null];
    // In the order of drawing: of equally near lines the one on top.
    for (const i of this.#order) {
      const far = this.shown[i] ? Math.abs(this.#y(a.at[i] + t * (b.at[i] - a.at[i])) - y) : Infinity;
      if (far <= best) [best, found] = [far, i];
    }
    return found;
  }

  #hover(e) {
    if (e.pointerType !== "touch") this.#mark(this.#nearest(e), e);
  }

  #click(e) {
    const [found, before] = [this.#nearest(e), this.#at];
    this.#mark(found, e);
    if (e.pointerType !== "touch" || found === before) this.#open();
  }

  #key(e) {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, PageUp: -10, PageDown: 10 }[e.key];
    if (step) {
      const rows = this.#order.filter((i) => this.shown[i]).reverse();
      const next = this.#at === null ? 0 : Math.min(rows.length - 1, Math.max(0, rows.indexOf(this.#at) + step));
      this.#mark(rows[next] ?? null);
      if (this.#at !== null) say(this.#words().join(", "));
    } else if (e.key === "Enter") this.#open();
    else if (e.key === "Escape") this.#mark(null);
    else return;
    e.preventDefault();
  }

  #words() {
    const { axis, colour, rows, dimensions, trials } = this.#chart;
    const [first, ...rest] = [`${axis.label}: ${show(colour[this.#at], axis.unit)}`, ...dimensions.map((d, k) => `${d.name}: ${d.values[rows[this.#at][k]]}`)];
    return [first, ...(trials.length ? [`trial ${trials[this.#at][1]}`] : []), ...rest];
  }

  /** Shows one row above all others. */
  #mark(row, event = null) {
    if (row === null && this.#at === null) return;
    this.#at = row;
    const ctx = this.marked.getContext("2d");
    ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    ctx.clearRect(0, 0, this.width, this.height);
    this.tip.hidden = row === null;
    this.surface.classList.toggle("pointing", row !== null && this.#chart.trials.length > 0);
    if (row === null) return;
    const path = new Path2D();
    this.#trace(path, row);
    ctx.lineJoin = "round";
    for (const [width, colour] of [[6, css("--surface")], [3, css("--focus")]]) {
      [ctx.lineWidth, ctx.strokeStyle] = [width, colour];
      ctx.stroke(path);
    }
    const [name, ...rest] = this.#words();
    this.tip.replaceChildren(el("strong", {}, name), ...rest.map((text) => el("span", {}, text)));
    const box = this.inside.getBoundingClientRect();
    const { scrollLeft: from, clientWidth } = this.host;
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const x = event ? event.clientX - box.left : from + clientWidth / 2;
    const side = x > from + clientWidth / 2 ? x - width - 16 : x + 16;
    this.tip.style.left = `${Math.max(from, Math.min(side, from + clientWidth - width))}px`;
    this.tip.style.top = `${Math.max(0, Math.min(event ? event.clientY - box.top : TOP, this.height - height))}px`;
  }

  #open() {
    const trial = this.#at === null ? null : this.#chart.trials[this.#at];
    if (trial) location.assign(trialAddress(trial));
  }
}

/** Where the i-th of n values lies, from 0 to 1. */
const part = (i, n) => (n > 1 ? i / (n - 1) : 0.5);

/** A colour between the page's five, from best (0) to worst (1). */
function ramp(p) {
  const k = Math.min(3, Math.floor(p * 4));
  const [a, b] = [css(`--ramp-${k}`), css(`--ramp-${k + 1}`)].map((colour) => colour.match(/[\d.]+/g).map(Number));
  return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * (p * 4 - k))).join(" ")})`;
}
