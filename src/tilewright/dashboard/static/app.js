// What every page does beyond its HTML: the theme, copying, keys, charts and live updates.
import { drawCharts } from "./charts.js";
import { el, kept, say } from "./dom.js";
import { follow } from "./live.js";
import { localTimes } from "./times.js";

const THEMES = ["auto", "light", "dark"];
const PLACES = { o: ["/", "the overview"], r: ["/runs", "runs"], k: ["/kernels", "kernels"], f: ["/farm", "the farm"] };

function theme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  if (!button) return;
  // It names the theme itself, so it has nothing to press in or out.
  button.removeAttribute("aria-pressed");
  const apply = (name) => {
    if (name === "auto") delete root.dataset.theme;
    else root.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
    kept.set("theme", name);
  };
  const now = () => root.dataset.theme ?? "auto";
  button.textContent = `Theme: ${now()}`;
  button.addEventListener("click", () => apply(THEMES[(THEMES.indexOf(now()) + 1) % THEMES.length]));
  // Paper is white, whatever the screen is.
  let before = null;
  addEventListener("beforeprint", () => ((before = now()), (root.dataset.theme = "light")));
  addEventListener("afterprint", () => before && apply(before));
}

function copying() {
  // On the document: parts of a live page are replaced, their buttons with them.
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("button[data-copy]");
    const source = button && document.querySelector(button.dataset.copy);
    if (!source) return;
    button.dataset.label ??= button.textContent;
    try {
      await navigator.clipboard.writeText(source.value ?? source.textContent);
      button.textContent = "Copied";
      say("Copied");
    } catch {
      // Browsers forbid it outside https and loopback: then it is selected, ready for the user's own copy.
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
      say("Selected: copy it with your browser");
    }
    setTimeout(() => (button.textContent = button.dataset.label), 2000);
  });
}

/** The list of keys, in a dialog, with a switch: keys of one letter disturb some ways of using a keyboard. */
function helpDialog() {
  const keys = [["?", "this help"], ["/", "to the filter"], ...Object.entries(PLACES).map(([k, [, name]]) => [`g ${k}`, `go to ${name}`])]; // prettier-ignore
  const charts = [
    ["← →", "in a chart: over its points, or from axis to axis"],
    ["↑ ↓", "in a chart: another series; on an axis: choose values (with Shift: more of them)"],
    ["Enter", "in a chart: open the trial"],
    ["+ − 0", "in a chart: zoom, and back"],
    ["Esc", "in a chart: undo the choice"],
  ];
  const entry = ([key, what]) => el("div", {}, el("dt", {}, ...key.split(" ").flatMap((k) => [el("kbd", {}, k), " "])), el("dd", {}, what));
  const on = el("input", { type: "checkbox", change: () => kept.set("keys", on.checked ? "on" : "off") });
  on.checked = kept.get("keys") !== "off";
  const dialog = el("dialog", { class: "help", "aria-labelledby": "help-title" },
    el("h2", { id: "help-title" }, "Keyboard"), el("dl", { class: "keys" }, ...[...keys, ...charts].map(entry)),
    el("label", {}, on, " Keys of one letter on"),
    el("form", { method: "dialog" }, el("button", { autofocus: true }, "Close"))); // prettier-ignore
  document.body.append(dialog);
  return { show: () => dialog.open || dialog.showModal(), isOn: () => on.checked };
}

function keyboard() {
  const help = helpDialog();
  const button = el("button", { type: "button", class: "plain", click: help.show }, "Keyboard");
  document.querySelector("footer.site")?.append(button);
  let leading = 0;
  document.addEventListener("keydown", (event) => {
    const busy = event.target.closest("input, select, textarea, dialog") || event.target.isContentEditable;
    if (busy || !help.isOn() || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const led = event.timeStamp - leading < 1500;
    leading = event.key === "g" ? event.timeStamp : 0;
    const filter = document.querySelector("form.filter :is(input:not([type=hidden]), select)");
    if (event.key === "?") help.show();
    else if (event.key === "/" && filter) filter.focus();
    else if (led && Object.hasOwn(PLACES, event.key)) location.assign(PLACES[event.key][0]);
    else return;
    event.preventDefault();
  });
}

theme();
localTimes(document);
setInterval(() => document.hidden || localTimes(document), 60_000);
copying();
keyboard();
follow(drawCharts());
