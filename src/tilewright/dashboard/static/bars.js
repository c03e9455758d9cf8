// Bars are a list of texts with a bar behind each: a screen reader reads the list.
import { el } from "./dom.js";
import { show } from "./units.js";

export class BarsPlot {
  busy = false;

  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
  }

  update({ axis, labels, values, title, alt }) {
    const most = Math.max(...values.map((v) => v ?? 0), 0) || 1;
    const list = el("ul", { class: "bars", "aria-label": alt || `${title}: ${axis.label}` });
    labels.forEach((label, i) => {
      const fill = el("span", { class: "fill" });
      fill.style.width = `${Math.max(0, (100 * (values[i] ?? 0)) / most)}%`;
      const value = el("span", { class: "value" }, show(values[i], axis.unit));
      list.append(el("li", {}, el("span", { class: "name" }, label), el("span", { class: "track", "aria-hidden": "true" }, fill), value));
    });
    this.host.replaceChildren(list);
  }

  redraw() {}
}
