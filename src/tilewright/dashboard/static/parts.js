import { localTimes } from "./times.js";

// Tables of a live page: [data-live-part] elements are replaced by those of the same page, fetched again.

let under = false;

/** Whether somebody is at work in an element: its focus or a selection must not be lost. */
function inUse(element) {
  const selection = getSelection();
  if (element.querySelector("input[type=checkbox]:checked")) return true;
  return element.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(element, true));
}

function replace(element, fresh) {
  const scrolled = [...element.querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
  element.replaceChildren(...document.adoptNode(fresh).childNodes);
  localTimes(element);
  element.querySelectorAll(".scroll").forEach((box, i) => scrolled[i] && box.scrollTo(...scrolled[i]));
}

/** Brings the page's parts up to date. What was not there before, a first chart, is worth loading the page again. */
export async function refreshParts() {
  if (under || document.hidden || !document.querySelector("[data-live-part]")) return;
  under = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const charts = (of) => of.querySelectorAll("figure.chart").length;
    if (charts(page) !== charts(document)) {
      if (!inUse(document.body) || document.activeElement === document.body) location.reload();
      return;
    }
    for (const element of document.querySelectorAll("[data-live-part]")) {
      const fresh = page.querySelector(`[data-live-part="${CSS.escape(element.dataset.livePart)}"]`);
      if (fresh && !fresh.isEqualNode(element) && !inUse(element)) replace(element, fresh);
    }
  } catch {
    // The server is away: the stream says so, and comes back by itself.
  } finally {
    under = false;
  }
}
