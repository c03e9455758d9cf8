// A grid is a table whose cells are coloured by their values: a screen reader reads the table.
import { el, trialAddress } from "./dom.js";
import { show } from "./units.js";

const SHADES = 4;

export class GridPlot {
  busy = false;

  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
  }

  update({ x, y, axis, cells, trials, alt }) {
    const known = cells.flat().filter((v) => v !== null);
    const place = axis.scale === "log" ? Math.log : (v) => v;
    const [low, high] = [Math.min(...known), Math.max(...known)].map(place);
    const shade = (v) => (high > low ? Math.round((SHADES * (place(v) - low)) / (high - low)) : 0);
    const cell = (value, trial) => {
      if (value === null) return el("td", {});
      const text = show(value, axis.unit);
      return el("td", { class: `shade-${shade(value)}` }, trial ? el("a", { href: trialAddress(trial) }, text) : text);
    };
    const head = el("tr", {}, el("th", { scope: "col" }, `${y.label} \\ ${x.label}`), ...x.categories.map((c) => el("th", { scope: "col" }, c)));
    const rows = cells.map((row, i) =>
      el("tr", {}, el("th", { scope: "row" }, y.categories[i]), ...row.map((v, k) => cell(v, trials?.[i]?.[k]))),
    );
    const table = el("table", { class: "data shades", "aria-label": alt }, el("thead", {}, head), el("tbody", {}, ...rows));
    this.host.replaceChildren(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": alt }, table));
  }

  redraw() {}
}
