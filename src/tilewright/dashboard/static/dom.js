// What every script here needs: elements made without markup strings, the theme's colours, spoken messages, addresses.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path"]);

/**
 * An element with attributes (a function is a listener, false or null is left out) and children (texts stay texts).
 * @param {string} tag
 * @param {Object<string, string | number | boolean | null | ((event: Event) => void)>} attributes
 * @param {...(Node | string)} children
 */
export function el(tag, attributes = {}, ...children) {
  const made = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

const probe = el("span", { hidden: true });

/** A colour of the present theme, as `rgb(r, g, b)`. @param {string} name a custom property */
export function css(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

let announcer = null;

/** Has a screen reader say a text, after what it says now. @param {string} text */
export function say(text) {
  if (!announcer) {
    announcer = el("p", { class: "unseen", id: "announcer", role: "status", "aria-live": "polite" });
    document.body.append(announcer);
  }
  announcer.textContent = text;
}

const ESCAPES = { "~": "~t", "/": "~s", "\\": "~b" };

/** The address of a trial's page; names are written as the server's `segment` does. @param {[string, number]} trial */
export function trialAddress([run, number]) {
  let name = run.replace(/[~/\\]/g, (character) => ESCAPES[character]);
  if (name === "." || name === "..") name = name.replace(".", "~d");
  return `/runs/${encodeURIComponent(name) || "~e"}/trials/${Math.trunc(Number(number))}`;
}

/** Calls `done` with the host's width whenever it changes. @param {Element} host */
export function onWidth(host, done) {
  let width = host.clientWidth;
  // In a frame of its own: a resize that causes another within one is an error to browsers.
  const observer = new ResizeObserver(() =>
    requestAnimationFrame(() => {
      if (host.clientWidth === width || !host.clientWidth) return;
      width = host.clientWidth;
      done(width);
    }),
  );
  observer.observe(host);
}

/** What is kept between visits, where the browser allows it. */
export const kept = {
  get(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      // It then lasts as long as the page.
    }
  },
};
