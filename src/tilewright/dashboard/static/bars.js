// Bars are a list of texts with a bar behind each: a screen reader reads the list.
import { el } from "./dom.js";
import { show } from "./units.js";

export class BarsPlot {
  busy = false;

  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
  }

  update({ axis, labels, values, low, high, title, alt, reference, role }) {
    const most = Math.max(...[...values, ...(high ?? []), reference].map((v) => v ?? 0), 0) || 1;
    const share = (v) => Math.max(0, (100 * (v ?? 0)) / most);
    const list = el("ul", { class: "bars", "aria-label": alt || `${title}: ${axis.label}` });
    labels.forEach((label, i) => {
      const fill = el("span", { class: `fill series-${role ?? "main"}` });
      fill.style.width = `${share(values[i])}%`;
      const track = el("span", { class: "track", "aria-hidden": "true" }, fill);
      if (reference !== undefined) {
        const line = el("span", { class: "reference" });
        line.style.left = `${share(reference)}%`;
        track.append(line);
      }
      let text = show(values[i], axis.unit);
      if (low) {
        const range = el("span", { class: "range" });
        range.style.left = `${share(low[i])}%`;
        range.style.width = `${share(high[i]) - share(low[i])}%`;
        track.append(range);
        if (low[i] < high[i]) text += ` (${show(low[i], axis.unit)} to ${show(high[i], axis.unit)})`;
      }
      const value = el("span", { class: "value" }, text);
      list.append(el("li", {}, el("span", { class: "name" }, label), track, value));
    });
    this.host.replaceChildren(list);
  }

  redraw() {}
}
