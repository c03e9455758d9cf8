// Every figure.chart of a page: fetched from its data-src, drawn, and fetched again when something changes.
import { BarsPlot } from "./bars.js";
import { el } from "./dom.js";
import { GridPlot } from "./grid.js";
import { ParallelPlot } from "./parallel.js";
import { XYPlot } from "./xy.js";

const KINDS = { xy: XYPlot, bars: BarsPlot, parallel: ParallelPlot, grid: GridPlot };
const APART = 1000;

class Figure {
  #drawing = null;
  #kind = null;
  #last = -Infinity;
  #timer = null;
  #stale = false;

  /** @param {HTMLElement} figure */
  constructor(figure) {
    this.figure = figure;
    this.source = figure.dataset.src;
    this.plot = figure.querySelector(".plot");
    this.note = figure.querySelector(".note");
    this.tools = el("div", { class: "tools", role: "group", "aria-label": "Series and view" });
    this.fault = el("div", { class: "fault", hidden: true });
    this.plot.before(this.tools, this.fault);
  }

  /** Fetches and draws: at once, or a second after the last time. What nobody sees waits until somebody does. */
  refresh() {
    if (document.hidden) {
      this.#stale = true;
      return;
    }
    const wait = this.#drawing?.busy ? APART : Math.max(0, this.#last + APART - performance.now());
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      if (this.#drawing?.busy) this.refresh();
      else this.#load();
    }, wait);
  }

  seen() {
    if (this.#stale) this.refresh();
  }

  redraw() {
    this.#drawing?.redraw();
  }

  async #load() {
    this.#last = performance.now();
    this.#stale = false;
    this.figure.setAttribute("aria-busy", "true");
    try {
      this.#draw(await fetched(this.source));
      this.fault.hidden = true;
    } catch (error) {
      this.#failed(error);
    }
    this.plot.hidden = !this.#drawing;
    this.figure.removeAttribute("aria-busy");
  }

  #draw(chart) {
    const Kind = KINDS[chart.kind];
    if (!Kind) throw new Error(`This page cannot draw a chart of kind ${chart.kind}.`);
    const caption = this.figure.querySelector("figcaption");
    if (caption && !caption.textContent.trim()) caption.textContent = chart.title;
    if (this.note) this.note.textContent = chart.note;
    this.plot.hidden = false;
    if (isEmpty(chart)) {
      this.#drawing = { redraw() {}, busy: false };
      this.#kind = null;
      this.tools.replaceChildren();
      this.plot.replaceChildren(el("p", { class: "empty" }, chart.alt || "Nothing to draw."));
      return;
    }
    if (this.#kind !== chart.kind) {
      this.#drawing = new Kind(this.plot, this.tools, Number(this.figure.dataset.height) || 320);
      this.#kind = this.figure.dataset.kind = chart.kind;
    }
    this.#drawing.update(chart);
  }

  #failed(error) {
    const again = el("button", { type: "button", click: () => {
      this.#last = -Infinity;
      this.refresh();
    } }, "Try again"); // prettier-ignore
    const what = this.#drawing ? "This chart is out of date." : "This chart could not be drawn.";
    this.fault.replaceChildren(el("p", { role: "alert" }, `${what} ${error.message}`), again);
    this.fault.hidden = false;
  }
}

/** A chart's description. @param {string} source an address of this site */
async function fetched(source) {
  const address = new URL(source, location.href);
  if (address.origin !== location.origin) throw new Error("Its address is not of this site.");
  let answer;
  try {
    answer = await fetch(address, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  } catch {
    throw new Error("The server did not answer: is it running?");
  }
  if (!answer.ok) throw new Error(`The server answered ${answer.status} ${answer.statusText}`.trim() + ".");
  if (!(answer.headers.get("Content-Type") ?? "").includes("json")) throw new Error("Log in again: reload the page.");
  return answer.json();
}

function isEmpty(chart) {
  if (chart.kind === "xy") return !chart.series.some((s) => s.y.some((v) => v !== null));
  if (chart.kind === "grid") return chart.cells.flat().every((v) => v === null);
  return !(chart.labels ?? chart.rows).length;
}

/** Draws every chart of the page. @returns {Map<HTMLElement, Figure>} */
export function drawCharts() {
  const figures = new Map();
  for (const figure of document.querySelectorAll("figure.chart[data-src]")) figures.set(figure, new Figure(figure));
  const all = (what) => () => figures.forEach((figure) => figure[what]());
  new MutationObserver(all("redraw")).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all("redraw"));
  document.addEventListener("visibilitychange", () => document.hidden || all("seen")());
  all("refresh")();
  return figures;
}
