// Series over two axes. uPlot lays out the axes and the drag; this file draws the series, so that every kind of point
// has a shape of its own, and finds points for the mouse and the keyboard.
/* global uPlot */
import { css, el, onWidth, say, trialAddress } from "./dom.js";
import { savePicture } from "./picture.js";
import { read, show, ticks } from "./units.js";

/** Shapes around the origin, about 1 in size: colour is never all that tells series apart. */
const SHAPES = [
  "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z",
  "M0,-1.3L1.1,0L0,1.3L-1.1,0Z",
  "M-.9,-.9H.9V.9H-.9Z",
  "M0,-1.15L1.1,.8H-1.1Z",
  "M-.4,-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z",
  "M0,-.55L.7,-1.2L1.2,-.7L.55,0L1.2,.7L.7,1.2L0,.55L-.7,1.2L-1.2,.7L-.55,0L-1.2,-.7L-.7,-1.2Z",
];
/** Of series that have a role, which is their colour too; others come in turn. */
const LOOKS = { main: 0, measured: 1, early: 3, failed: 5, limit: 2 };
const OTHERS = { colours: 5, looks: [2, 4, 1, 3, 5] };
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [12, 5], [4, 2]];
const NEAR = 24;

export class XYPlot {
  /** While the mouse selects, new data waits. */
  busy = false;
  #chart;
  #plot;
  #styles = [];
  #zoom = null;
  #hidden = new Set();
  #at = null;
  #kept = null;
  #names = "";

  /** @param {HTMLElement} host @param {HTMLElement} tools where the legend goes @param {number} height */
  constructor(host, tools, height) {
    this.host = host;
    this.height = height;
    this.tools = tools;
    this.canvas = el("div", { role: "img" });
    this.ring = el("div", { class: "ring", hidden: true });
    this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.surface = el("div", {
      class: "surface", role: "application", tabindex: 0, "aria-roledescription": "chart",
      keydown: (e) => this.#key(e), blur: () => this.#select(null),
      pointerdown: (e) => this.#press(e), pointermove: (e) => this.#hover(e),
      pointerleave: () => document.activeElement !== this.surface && this.#select(null),
      click: (e) => this.#click(e), dblclick: () => this.#view(null),
    }, this.canvas); // prettier-ignore
    host.replaceChildren(this.surface);
    this.reset = el("button", { type: "button", hidden: true, click: () => (this.#view(null), this.surface.focus()) }, "Reset zoom");
    this.save = el("button", { type: "button", title: "Save this chart as a picture (PNG)", click: () => this.#save() }, "Save picture");
    onWidth(host, () => this.#chart && this.#build());
  }

  update(chart) {
    const held = this.#at && this.#trial();
    this.#at = null;
    this.#chart = chart;
    const about = chart.series.some((s) => s.emphasis);
    let others = 0;
    this.#styles = chart.series.map((s) => {
      const role = s.emphasis ? "main" : s.role;
      const place = role ? 0 : others++;
      return {
        colour: role || (place % OTHERS.colours) + 1,
        // After five, a colour comes again with another shape.
        look: role ? LOOKS[role] : OTHERS.looks[(place + Math.floor(place / OTHERS.colours)) % OTHERS.looks.length],
        strong: s.emphasis || !about,
        order: sorted(s),
        radius: s.x.length > 1500 ? 2 : s.x.length > 300 ? 2.75 : 4,
      };
    });
    this.#legend();
    this.#build();
    this.#kept = held && this.#find(held);
  }

  redraw() {
    this.#legend(true);
    this.#build();
  }

  #build() {
    const { x, y, title, alt } = this.#chart;
    this.#plot?.destroy();
    this.#plot = null;
    // What is chosen stays so, and is marked again once its place is known.
    this.#kept = this.#at;
    this.#select(null);
    const width = this.host.clientWidth;
    if (!width) return;
    const opens = this.#chart.series.some((s) => s.trials);
    this.surface.setAttribute("aria-label",
      `${title}. Arrow keys move over the points${opens ? ", Enter opens the trial" : ""}, plus and minus zoom.`); // prettier-ignore
    this.canvas.setAttribute("aria-label", alt || title);
    this.full = { x: this.#range("x"), y: this.#range("y") };
    const [ink, grid] = [css("--muted"), css("--grid")];
    const family = getComputedStyle(this.host).fontFamily;
    const fonts = { font: `12px ${family}`, labelFont: `600 12px ${family}` };
    this.made = {};
    const axis = (of, key, extra) => ({
      ...fonts, stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 },
      label: this.#label(of, key, width), splits: (_, __, low, high) => this.#ticks(key, width, low, high).at,
      values: (_, at) => at.map((v) => this.made[key].get(v)),
      filter: (_, at) => at, labelGap: 2, gap: 4, ...extra,
    }); // prettier-ignore
    const scale = (of, key) => ({ time: false, distr: of.scale === "log" ? 3 : 1, range: () => this.#shown(key) });
    this.#plot = new uPlot(
      {
        width, height: this.height, legend: { show: false }, padding: [10, 14, 0, 4],
        scales: { x: scale(x, "x"), y: scale(y, "y") },
        axes: [axis(x, "x", { size: x.unit === "date" ? 44 : 28, labelSize: 22 }),
          axis(y, "y", { size: (_, texts) => 14 + 7 * Math.max(3, ...(texts ?? []).map((t) => t.length)), labelSize: 20 })],
        series: [{}, { paths: () => null, points: { show: false } }],
        cursor: { points: { show: false }, drag: { x: true, y: true, uni: 24, dist: 5, setScale: false } },
        hooks: { draw: [(u) => this.#draw(u)], setSelect: [(u) => this.#selected(u)] },
      },
      [[1, 2], [1, 2]],
      this.canvas,
    ); // prettier-ignore
    this.#plot.over.append(this.ring, this.tip);
  }

  #label(axis, key, width) {
    const { unit } = this.#ticks(key, width, ...this.#shown(key));
    return unit ? `${axis.label} (${unit})` : axis.label;
  }

  #ticks(key, width, low, high) {
    const most = key === "x" ? Math.max(2, Math.floor(width / 95)) : Math.max(3, Math.floor(this.height / 48));
    const found = ticks(this.#chart[key], low, high, most);
    this.made[key] = new Map(found.at.map((v, i) => [v, found.texts[i]]));
    return found;
  }

  #shown = (key) => this.#zoom?.[key] ?? this.full[key];

  /** What an axis shows before any zoom: all that is drawn, and a little around it. */
  #range(key) {
    const { unit, scale, categories } = this.#chart[key];
    if (categories) return [-0.5, categories.length - 0.5];
    let [low, high] = [Infinity, -Infinity];
    for (const s of this.#visible())
      for (const values of key === "y" ? [s.y, s.low ?? [], s.high ?? []] : [s.x])
        for (const v of values)
          if (v !== null && (scale !== "log" || v > 0)) [low, high] = [Math.min(low, v), Math.max(high, v)];
    if (low > high) return scale === "log" ? [1, 10] : [0, 1];
    if (scale === "log") {
      const pad = high > low ? (high / low) ** 0.05 : 1.5;
      return [low / pad, high * pad];
    }
    const pad = (high - low || Math.abs(high) || 1) * 0.05;
    const grounded = low >= 0 && unit !== "date" && low < high * 0.5;
    return [grounded ? (key === "x" ? -pad * 0.4 : 0) : low - pad, high + pad];
  }

  #visible = () => this.#chart.series.filter((s) => !this.#hidden.has(s.name));

  #draw(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const order = this.#chart.series.map((s, i) => [s, this.#styles[i]]).sort((a, b) => a[0].emphasis - b[0].emphasis);
    const place = (values, key) => values.map((v) => (v === null || (this.#chart[key].scale === "log" && v <= 0) ? NaN : u.valToPos(v, key, true)));
    for (const [s, style] of order) {
      const [px, py] = [place(s.x, "x"), place(s.y, "y")];
      style.places = [px, py, bbox.left, bbox.top, ratio];
      if (this.#hidden.has(s.name)) continue;
      ctx.strokeStyle = ctx.fillStyle = css(`--series-${style.colour}`);
      if (s.low) {
        const bottom = bbox.top + bbox.height;
        const [low, high] = [place(s.low, "y").map((v) => (isNaN(v) ? bottom : v)), place(s.high, "y")];
        if (s.mode === "points") this.#bars(ctx, px, low, high, ratio);
        else this.#band(ctx, s.mode, px, low, high);
      }
      const dense = s.mode !== "points" && s.x.length > 60;
      if (s.mode !== "points") this.#line(ctx, s.mode, style, px, py, ratio);
      if (!dense && (s.mode === "points" || s.trials)) this.#points(ctx, style, px, py, ratio);
    }
    ctx.restore();
    const kept = this.#kept;
    this.#kept = null;
    if (kept) this.#select(kept);
  }

  #line(ctx, mode, style, px, py, ratio) {
    ctx.lineWidth = (style.strong ? 2.25 : 1.5) * ratio;
    ctx.setLineDash(DASHES[style.look].map((d) => d * ratio));
    ctx.lineJoin = "round";
    ctx.beginPath();
    trace(ctx, mode, style.order, px, py);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  #band(ctx, mode, px, low, high) {
    ctx.globalAlpha = 0.18;
    const order = px.map((_, i) => i).filter((i) => !isNaN(px[i] + low[i] + high[i])).sort((a, b) => px[a] - px[b]); // prettier-ignore
    ctx.beginPath();
    trace(ctx, mode, order, px, high);
    for (let k = order.length - 1; k >= 0; k--) {
      if (mode === "step" && k < order.length - 1) ctx.lineTo(px[order[k + 1]], low[order[k]]);
      ctx.lineTo(px[order[k]], low[order[k]]);
    }
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  #bars(ctx, px, low, high, ratio) {
    ctx.lineWidth = ratio;
    ctx.globalAlpha = 0.5;
    ctx.beginPath();
    px.forEach((x, i) => (ctx.moveTo(x, low[i]), ctx.lineTo(x, high[i])));
    ctx.stroke();
    ctx.globalAlpha = 1;
  }

  #points(ctx, style, px, py, ratio) {
    const shape = new Path2D(SHAPES[style.look]);
    const radius = style.radius * ratio;
    const before = ctx.getTransform();
    ctx.globalAlpha = px.length > 300 ? 0.65 : 0.9;
    for (let i = 0; i < px.length; i++) {
      if (isNaN(px[i] + py[i])) continue;
      ctx.setTransform(before);
      ctx.translate(px[i], py[i]);
      ctx.scale(radius, radius);
      ctx.fill(shape);
    }
    ctx.setTransform(before);
    ctx.globalAlpha = 1;
  }

  #legend(again = false) {
    const { series } = this.#chart;
    const names = JSON.stringify(series.map((s) => s.name));
    if (names === this.#names && !again) return;
    this.#names = names;
    const buttons = series.map((s, i) => this.#entry(s, this.#styles[i]));
    this.tools.replaceChildren(...(series.length > 1 ? buttons : []), this.reset, this.save);
  }

  /** A series' entry in the legend, which hides and shows it. */
  #entry(s, { look, colour }) {
    const line = s.mode !== "points";
    const dash = DASHES[look].join(" ") || "none";
    const swatch = el("svg", { viewBox: "-11 -6 22 12", "aria-hidden": "true", class: `swatch series-${colour}` },
      ...(line ? [el("path", { d: "M-11,0H11", class: "stroke", "stroke-dasharray": dash })] : []),
      ...(!line || s.trials ? [el("path", { d: SHAPES[look], transform: "scale(3.8)" })] : [])); // prettier-ignore
    const button = el("button", { type: "button", "aria-pressed": String(!this.#hidden.has(s.name)), click: () => {
      if (!this.#hidden.delete(s.name)) this.#hidden.add(s.name);
      button.setAttribute("aria-pressed", String(!this.#hidden.has(s.name)));
      this.#build();
    } }, swatch, s.name); // prettier-ignore
    return button;
  }

  #save() {
    const shown = this.#chart.series.map((s, i) => [s, this.#styles[i]]).filter(([s]) => !this.#hidden.has(s.name));
    const entries = shown.map(([s, style]) => ({ name: s.name, colour: css(`--series-${style.colour}`), draw: (ctx) => {
      const line = s.mode !== "points";
      if (line) this.#line(ctx, "line", { ...style, order: [0, 1] }, [-11, 11], [0, 0], 1);
      if (!line || s.trials) this.#points(ctx, style, [0], [0], 1);
    } })); // prettier-ignore
    savePicture(this.#plot.ctx.canvas, this.#chart.title, entries.length > 1 ? entries : [], getComputedStyle(this.host).fontFamily);
  }

  #view(zoom) {
    this.#zoom = zoom;
    this.reset.hidden = !zoom;
    this.#build();
  }

  #selected(u) {
    const { left, top, width, height } = u.select;
    if (!width && !height) return;
    const span = (key, a, b) => [u.posToVal(a, key), u.posToVal(b, key)].sort((p, q) => p - q);
    const zoom = { x: span("x", left, left + width), y: span("y", top, top + height) };
    // Not within uPlot's own handler, whose plot this replaces.
    requestAnimationFrame(() => this.#view(zoom));
  }

  #press(e) {
    this.pressed = [e.clientX, e.clientY];
    this.busy = true;
    addEventListener("pointerup", () => (this.busy = false), { once: true });
    addEventListener("pointercancel", () => (this.busy = false), { once: true });
  }

  #hover(e) {
    if (e.pointerType !== "touch" && !e.buttons) this.#select(this.#nearest(e));
  }

  #click(e) {
    const [x, y] = this.pressed ?? [e.clientX, e.clientY];
    if (Math.hypot(e.clientX - x, e.clientY - y) > 4) return;
    const found = this.#nearest(e);
    const again = found && this.#at && found.series === this.#at.series && found.index === this.#at.index;
    this.#select(found);
    // A finger has no hover: its first tap shows, its second opens.
    if (found && (e.pointerType !== "touch" || again)) this.#open();
  }

  #nearest(e) {
    if (!this.#plot) return null;
    const box = this.#plot.over.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    let [best, found] = [NEAR, null];
    this.#chart.series.forEach((s, series) => {
      if (this.#hidden.has(s.name)) return;
      for (let index = 0; index < s.x.length; index++) {
        const [px, py] = this.#position(series, index);
        // A point that opens is preferred to one of a line below it.
        const far = Math.hypot(px - x, py - y) + (s.trials ? 0 : 3);
        if (far < best) [best, found] = [far, { series, index }];
      }
    });
    return found;
  }

  /** Where a point is, in pixels of the plot's inside. */
  #position(series, index) {
    const [px, py, left, top, ratio] = this.#styles[series].places;
    return [(px[index] - left) / ratio, (py[index] - top) / ratio];
  }

  #trial = () => this.#chart.series[this.#at.series].trials?.[this.#at.index];

  /** Where a trial now is, if anywhere. */
  #find([run, number]) {
    for (const [series, s] of this.#chart.series.entries()) {
      const index = s.trials?.findIndex(([r, n]) => r === run && n === number) ?? -1;
      if (index >= 0) return { series, index };
    }
    return null;
  }

  #select(at) {
    this.#at = at;
    this.ring.hidden = this.tip.hidden = !at || !this.#plot;
    if (this.ring.hidden) return;
    const [x, y] = this.#position(at.series, at.index);
    const { over } = this.#plot;
    this.ring.hidden = x < 0 || y < 0 || x > over.clientWidth || y > over.clientHeight;
    this.ring.style.transform = `translate(${x}px, ${y}px)`;
    const [name, ...rest] = this.#words();
    this.tip.replaceChildren(el("strong", {}, name), ...rest.map((text) => el("span", {}, text)));
    this.tip.style.left = `${Math.min(Math.max(0, x + (x > over.clientWidth / 2 ? -this.tip.offsetWidth - 12 : 12)), Math.max(0, over.clientWidth - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${Math.min(Math.max(0, y - this.tip.offsetHeight - 8), over.clientHeight)}px`;
  }

  #words() {
    const { x, y, series } = this.#chart;
    const s = series[this.#at.series];
    const i = this.#at.index;
    const words = [s.name, `${y.label}: ${read(y, s.y[i])}`, `${x.label}: ${read(x, s.x[i])}`];
    if (s.low) words.push(`from ${show(s.low[i], y.unit)} to ${show(s.high[i], y.unit)}`);
    const trial = s.trials?.[i][1];
    if (trial !== undefined && (x.unit !== "trial" || trial !== s.x[i])) words.push(`trial ${trial}`);
    return words;
  }

  #open() {
    const trial = this.#at && this.#trial();
    if (trial) location.assign(trialAddress(trial));
  }

  #key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target !== this.surface) return;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[e.key];
    const other = { ArrowUp: -1, ArrowDown: 1 }[e.key];
    if (step || other) {
      if (step) this.#move(step);
      else this.#change(other);
      if (this.#at) say(this.#words().join(", "));
    } else if (e.key === "Enter") this.#open();
    else if (e.key === "Escape" && this.#at) this.#select(null);
    else if (e.key === "0" || (e.key === "Escape" && this.#zoom)) this.#view(null);
    else if (e.key === "+" || e.key === "=") this.#closer(0.5);
    else if (e.key === "-") this.#closer(2);
    else return;
    e.preventDefault();
  }

  #move(step) {
    const candidates = this.#chart.series.map((s, i) => [s, i]).filter(([s, i]) => !this.#hidden.has(s.name) && this.#styles[i].order.length);
    const first = candidates.find(([s]) => s.emphasis) ?? candidates.find(([s]) => s.trials) ?? candidates[0];
    if (!first) return;
    const series = this.#at?.series ?? first[1];
    const { order } = this.#styles[series];
    const now = this.#at ? order.indexOf(this.#at.index) : step > 0 ? -1 : order.length;
    const next = this.#at || Math.abs(step) > 1 ? now + step : step > 0 ? 0 : order.length - 1;
    this.#select({ series, index: order[Math.min(order.length - 1, Math.max(0, next))] });
  }

  /** The point of another series that is nearest along x. */
  #change(direction) {
    if (!this.#at) return this.#move(1);
    const { series } = this.#chart;
    const x = series[this.#at.series].x[this.#at.index];
    for (let k = 1; k < series.length; k++) {
      const next = (this.#at.series + direction * k + series.length * k) % series.length;
      const { order } = this.#styles[next];
      if (this.#hidden.has(series[next].name) || !order.length) continue;
      const far = (i) => Math.abs(series[next].x[i] - x);
      return this.#select({ series: next, index: order.reduce((best, i) => (far(i) < far(best) ? i : best)) });
    }
  }

  /** Shows a half or the double of what is shown, around the chosen point. */
  #closer(factor) {
    const zoom = {};
    for (const key of ["x", "y"]) {
      const log = this.#chart[key].scale === "log";
      const [to, from] = log ? [Math.log, Math.exp] : [(v) => v, (v) => v];
      const [low, high] = this.#shown(key).map(to);
      const value = this.#at && this.#chart.series[this.#at.series][key][this.#at.index];
      const middle = value !== null && (value > 0 || !log) ? to(value) : (low + high) / 2;
      zoom[key] = [middle - (middle - low) * factor, middle + (high - middle) * factor].map(from);
    }
    const whole = ["x", "y"].every((k) => zoom[k][0] <= this.full[k][0] && zoom[k][1] >= this.full[k][1]);
    this.#view(whole ? null : zoom);
  }
}

/** The indices of the points that can be drawn, from left to right. */
function sorted(series) {
  const found = series.x.map((_, i) => i).filter((i) => series.x[i] !== null && series.y[i] !== null);
  return found.sort((a, b) => series.x[a] - series.x[b]);
}

/** A line over points in order; a step keeps its height until the next point. */
function trace(ctx, mode, order, px, py) {
  let last = null;
  for (const i of order) {
    if (isNaN(px[i] + py[i])) continue;
    if (last === null) ctx.moveTo(px[i], py[i]);
    else if (mode === "step") ctx.lineTo(px[i], py[last]);
    ctx.lineTo(px[i], py[i]);
    last = i;
  }
}
