// What changes while a page is open. One stream of server-sent events an address (data-live), with the events
//   points, refresh   charts are fetched again: all of that address, or those named in {"charts": [names]}; with
//                     {"parts": true} so are the page's tables
//   state             {"KEY": "text"}: what [data-live-text=KEY] says, and the state class of [data-live-class=KEY]
//   trouble           {"text": why} the server cannot look just now; the stream ends and is tried again, ever less often
//   end               nothing more will change
import { say } from "./dom.js";
import { refreshParts } from "./parts.js";

const LONGEST = 30_000;

class Stream {
  #source = null;
  #failures = 0;
  #timer = null;
  #opened = false;
  #ended = false;
  #trouble = "";

  constructor(address, figures) {
    this.address = address;
    this.figures = figures;
    // A hidden page holds no connection: a browser allows six to a server, over all of its tabs.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.#open()));
    addEventListener("pagehide", () => this.#close());
    addEventListener("pageshow", (event) => event.persisted && this.#open());
    if (!document.hidden) this.#open();
  }

  #open() {
    if (this.#ended || this.#source) return;
    clearTimeout(this.#timer);
    const source = (this.#source = new EventSource(this.address));
    source.onopen = () => {
      status("live", "running");
      // What was missed meanwhile.
      if (this.#opened) this.#refresh(null);
      this.#opened = true;
    };
    source.onerror = () => {
      this.#close();
      status(this.#trouble || "reconnecting", "warn");
      this.#trouble = "";
      const wait = Math.min(LONGEST, 1000 * 2 ** this.#failures++);
      this.#timer = setTimeout(() => document.hidden || this.#open(), wait * (0.75 + Math.random() / 2));
    };
    source.addEventListener("points", () => this.#refresh(null));
    source.addEventListener("refresh", (event) => {
      const { charts, parts } = parsed(event);
      this.#refresh(charts ?? null);
      if (parts) refreshParts();
    });
    source.addEventListener("state", (event) => {
      this.#failures = 0;
      this.#state(parsed(event));
    });
    source.addEventListener("trouble", (event) => (this.#trouble = parsed(event).text));
    source.addEventListener("end", () => {
      this.#ended = true;
      this.#close();
      this.#refresh(null);
      refreshParts();
      status("ended", "done");
      say("Nothing more will change: live updates have ended.");
    });
  }

  #close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #refresh(names) {
    this.figures.forEach((figure, element) => {
      const name = figure.source.split(/[?#]/)[0].split("/").at(-1).replace(/\.json$/, "");
      if (address(element) === this.address && (!names || names.includes(name))) figure.refresh();
    });
  }

  #state(texts) {
    for (const element of document.querySelectorAll("[data-live-text], [data-live-class]")) {
      if (![null, this.address].includes(address(element))) continue;
      const { liveText, liveClass } = element.dataset;
      if (liveText in texts && element.textContent !== String(texts[liveText])) element.textContent = texts[liveText];
      if (liveClass in texts && /^[a-z-]+$/.test(texts[liveClass])) element.className = `state state-${texts[liveClass]}`;
    }
  }
}

/** The stream that an element belongs to: its own, or what it lies in. */
const address = (element) => element.closest("[data-live]")?.dataset.live ?? null;

const parsed = (event) => JSON.parse(event.data || "{}");

function status(text, state) {
  const element = document.getElementById("live-status");
  if (!element) return;
  element.hidden = false;
  element.className = `state state-${state}`;
  element.textContent = text;
}

/** Follows every stream that the page names. @param {Map<HTMLElement, {source: string, refresh(): void}>} figures */
export function follow(figures) {
  const addresses = new Set([...document.querySelectorAll("[data-live]")].map((element) => element.dataset.live));
  for (const one of addresses) new Stream(one, figures);
}
