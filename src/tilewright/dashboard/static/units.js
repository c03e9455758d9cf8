// Numbers as people read them, as the server writes them in tables: 17.6 us, 81.2 GFLOP/s, 12.5%.

const TIMES = [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
const LONG = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
const RATES = [[1e15, "PFLOP/s"], [1e12, "TFLOP/s"], [1e9, "GFLOP/s"], [1e6, "MFLOP/s"], [1e3, "kFLOP/s"], [1, "FLOP/s"]];

/** The unit a number of this size is read in. @returns {[number, string]} its worth, and its name */
export function scaleOf(unit, size) {
  if (unit === "share") return [0.01, "%"];
  if (unit === "times") return [1, "x"];
  if (unit === "flop/byte") return [1, "FLOP/byte"];
  const units = { s: size < 120 ? TIMES.slice(2) : TIMES, "flop/s": RATES }[unit];
  if (!units) return [1, ""];
  return units.find(([worth]) => size >= worth * 0.9999) ?? units.at(-1);
}

const plain = (value, digits) => value.toLocaleString("en", { maximumSignificantDigits: digits });
const two = (value) => String(value).padStart(2, "0");

function moment(seconds, digits) {
  const text = new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19);
  return digits ? text : text.slice(11);
}

/** A value with its unit. @param {number | null} value @param {string} unit one of insight.chart.UNITS */
export function show(value, unit) {
  if (!Number.isFinite(value)) return "none";
  if (unit === "date") return `${moment(value, 1)} UTC`;
  if (unit === "s" && value >= 120) {
    const whole = Math.round(value);
    const [size, unit, part, name] = LONG.find(([size]) => whole >= size);
    const rest = Math.floor((whole % size) / part);
    return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${name}` : ""}`;
  }
  const [worth, name] = scaleOf(unit, Math.abs(value));
  if (unit === "share") return `${(value / worth).toFixed(1)}%`;
  if (unit === "times") return `${value.toFixed(2)}x`;
  return plain(value / worth, { trial: 12, s: 3 }[unit] ?? 4) + (name && ` ${name}`);
}

/** A value of an axis, which may be one of its categories. */
export const read = (axis, value) => axis.categories?.[value] ?? show(value, axis.unit);

export const shortened = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);

/** Round steps of at most `most` parts between two numbers. */
function steps(low, high, most, whole) {
  const raw = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(power * ([1, 2, 5].find((m) => m * power >= raw * 0.9999) ?? 10), whole ? 1 : 0);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step + 0);
  return found;
}

const DATE_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/**
 * Where an axis has its ticks, what they say, and the unit that belongs in its label.
 * @param {{unit: string, scale: string, categories?: string[]}} axis @param {number} low @param {number} high @param {number} most ticks at most
 * @returns {{at: number[], texts: string[], unit: string}}
 */
export function ticks(axis, low, high, most) {
  if (axis.categories) {
    const [first, last] = [Math.max(0, Math.ceil(low)), Math.min(axis.categories.length - 1, Math.floor(high))];
    const at = [];
    for (let v = first; v <= last; v += Math.max(1, Math.ceil((last - first + 1) / most))) at.push(v);
    return { at, texts: at.map((v) => shortened(axis.categories[v])), unit: "" };
  }
  if (axis.unit === "date") {
    const step = DATE_STEPS.find((s) => (high - low) / s <= most) ?? 86400 * Math.ceil((high - low) / 86400 / most);
    const at = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) at.push(k * step);
    const texts = at.map((v, i) => {
      const date = new Date(v * 1000);
      const day = `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
      if (step >= 86400) return day;
      const clock = moment(v).slice(0, step < 60 ? 8 : 5);
      return i === 0 || v % 86400 === 0 ? `${clock}\n${day}` : clock;
    });
    return { at, texts, unit: "UTC" };
  }
  const decades = axis.scale === "log" ? Math.log10(high / low) : 0;
  if (decades > 1) {
    const digits = [[1, 2, 5], [1, 3], [1]].find((d) => d.length * decades <= most) ?? [1];
    const stride = Math.max(1, Math.ceil(decades / most));
    const at = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k += stride)
      for (const d of digits) if (d * 10 ** k >= low && d * 10 ** k <= high) at.push(d * 10 ** k);
    // A unit that is the same for all belongs in the label.
    const [worth, unit] = axis.unit === "s" || axis.unit === "flop/s" ? [0, ""] : scaleOf(axis.unit, 1);
    return { at, texts: at.map((v) => (worth ? plain(v / worth, 6) : show(v, axis.unit))), unit };
  }
  const [worth, unit] = scaleOf(axis.unit, Math.max(Math.abs(low), Math.abs(high)) / 2);
  const at = steps(low / worth, high / worth, most, axis.unit === "trial");
  return { at: at.map((v) => v * worth), texts: at.map((v) => plain(v, 6)), unit };
}
