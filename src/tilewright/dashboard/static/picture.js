// A chart as a picture in a file: its canvas below its title and the names of its series.
import { css, el } from "./dom.js";

const EDGE = 12;
const LINE = 22;

/**
 * Saves a picture, named after its title.
 * @param {HTMLCanvasElement} canvas what was drawn, in the device's pixels
 * @param {string} title
 * @param {{name: string, colour: string, draw: (ctx: CanvasRenderingContext2D) => void}[]} series `draw` around the origin
 * @param {string} family of fonts
 */
export async function savePicture(canvas, title, series, family) {
  const ratio = devicePixelRatio;
  const width = canvas.width / ratio + 2 * EDGE;
  const ctx = el("canvas", {}).getContext("2d");
  const places = [];
  ctx.font = `13px ${family}`;
  let [x, y] = [EDGE, EDGE + LINE];
  for (const { name } of series) {
    const wide = 30 + ctx.measureText(name).width + 14;
    if (x > EDGE && x + wide > width - EDGE) [x, y] = [EDGE, y + LINE];
    places.push([x, y]);
    x += wide;
  }
  const top = (series.length ? y : EDGE) + LINE;
  ctx.canvas.width = width * ratio;
  ctx.canvas.height = (top + EDGE) * ratio + canvas.height;
  ctx.scale(ratio, ratio);
  ctx.fillStyle = css("--surface");
  ctx.fillRect(0, 0, width, top + EDGE + canvas.height / ratio);
  ctx.textBaseline = "middle";
  ctx.fillStyle = css("--ink");
  ctx.font = `600 15px ${family}`;
  ctx.fillText(title, EDGE, EDGE + LINE / 2, width - 2 * EDGE);
  ctx.font = `13px ${family}`;
  series.forEach(({ name, colour, draw }, i) => {
    const [left, up] = places[i];
    ctx.save();
    ctx.translate(left + 12, up + LINE / 2);
    ctx.fillStyle = ctx.strokeStyle = colour;
    draw(ctx);
    ctx.restore();
    ctx.fillStyle = css("--ink");
    ctx.fillText(name, left + 28, up + LINE / 2);
  });
  ctx.drawImage(canvas, EDGE, top, canvas.width / ratio, canvas.height / ratio);
  const blob = await new Promise((done) => ctx.canvas.toBlob(done, "image/png"));
  const address = URL.createObjectURL(blob);
  const file = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  el("a", { href: address, download: `${file || "chart"}.png` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
