// Shared by all charts: SVG elements, scales with round ticks, point shapes, number formats.
function svg(tag, attributes = {}, ...children) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  one.append(...children);
  return one;
}

// The same eight colors, eight shapes and four dashes as in the figures that are written to files.
const paint = (index) => `var(--c${index % 8})`;
const dash = (index) => ["", "7 3", "2 3", "7 3 2 3"][Math.floor(index / 8) % 4];
const SHAPES = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
  (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0,${-1.2 * r}L${1.2 * r},${r}H${-1.2 * r}z`,
  (r) => `M0,${-1.35 * r}L${1.35 * r},0L0,${1.35 * r}L${-1.35 * r},0z`,
  (r) => `M0,${1.2 * r}L${1.2 * r},${-r}H${-1.2 * r}z`,
  (r) => `M${-r / 2.4},${-1.2 * r}h${r / 1.2}v${r * 0.8}h${r * 0.8}v${r / 1.2}h${-r * 0.8}v${r * 0.8}h${-r / 1.2}v${-r * 0.8}h${-r * 0.8}v${-r / 1.2}h${r * 0.8}z`,
  (r) => `M${[...Array(10).keys()].map((i) => [(i % 2 ? 0.65 : 1.55) * r, (Math.PI * i) / 5]).map(([far, turn]) => `${far * Math.sin(turn)},${-far * Math.cos(turn)}`).join("L")}z`,
  (r) => `M${1.2 * r},0L${-r},${1.2 * r}V${-1.2 * r}z`,
];
const shape = (index, x, y, r = 3.5) => svg("path", {
  d: SHAPES[(index + Math.floor(index / 8)) % 8](r), transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, style: `fill:${paint(index)}`, class: "shape",
});
function sample(index) {
  const line = svg("line", { x1: 0, x2: 26, y1: 6, y2: 6, style: `stroke:${paint(index)}`, "stroke-width": 2, "stroke-dasharray": dash(index) });
  return svg("svg", { width: 26, height: 12, "aria-hidden": "true" }, line, shape(index, 13, 6));
}

// Ticks at round numbers. If `least` is given, they are multiples of it.
function roundTicks(low, high, count, least = 0) {
  if (!(high > low)) return [low];
  const rough = Math.max((high - low) / count, least), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough && !(least && one % least));
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) ticks.push(n * step);
  return ticks;
}
function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const digit of [1, 2, 5]) ticks.push(digit * 10 ** power);
  }
  const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  const tens = inside.filter((tick) => Number.isInteger(Math.round(Math.log10(tick) * 1e6) / 1e6));
  if (inside.length > 7 && tens.length > 2) return tens;
  return inside.length > 1 ? inside : roundTicks(low, high, 4);
}

// A scale maps values between low and high to pixels between from and to.
function scale(low, high, from, to, log = false) {
  const map = log ? Math.log10 : (value) => value;
  const span = map(high) - map(low) || 1;
  const at = (value) => from + ((map(value) - map(low)) / span) * (to - from);
  at.ticks = (count) => (log ? logTicks(low, high) : roundTicks(low, high, count));
  at.back = (pixel) => { const value = map(low) + ((pixel - from) / (to - from)) * span; return log ? 10 ** value : value; };
  return at;
}

const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
function count(value, digits = 3) {
  for (const [size, unit] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "K"]]) {
    if (Math.abs(value) >= size * 0.9995) return trim((value / size).toPrecision(digits)) + unit;
  }
  return value && Math.abs(value) < 0.001 ? value.toExponential(digits - 3) : trim(value.toPrecision(digits));
}
function duration(seconds, digits = 3) {
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([one]) => seconds >= one) ?? [1, "s"];
  return `${trim((seconds / size).toPrecision(seconds / size >= 100 ? digits + 1 : digits))} ${unit}`;
}
const gigabytes = (megabytes, digits = 3) => `${trim((megabytes / 1000).toPrecision(digits))} GB`;
// Formats the numbers along an axis with as few digits as distinguish them.
function tickTexts(ticks, write) {
  for (let digits = 3; ; digits += 1) {
    const texts = ticks.map((tick) => write(tick, digits));
    if (digits > 9 || new Set(texts).size === texts.length) return texts;
  }
}
const WRITE = { count, duration, memory: gigabytes };
// Ticks of wall time are at whole minutes or hours, not at powers of ten of a second.
function timeTicks(low, high, wanted) {
  const unit = high >= 2 * 86400 ? 86400 : high >= 7200 ? 3600 : high >= 120 ? 60 : 1;
  return roundTicks(low / unit, high / unit, wanted).map((tick) => tick * unit);
}

// Draws axes: grid lines, and numbers at both axes. `box` is the area that remains for the data.
function axes(canvas, box, x, y, xTicks, yTicks, writeX, writeY, xTitle) {
  const [xTexts, yTexts] = [tickTexts(xTicks, writeX), tickTexts(yTicks, writeY)];
  yTicks.forEach((tick, place) => canvas.append(
    svg("line", { x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), class: "gridline" }),
    svg("text", { x: box.left - 7, y: y(tick) + 4, "text-anchor": "end" }, yTexts[place]),
  ));
  xTicks.forEach((tick, place) => canvas.append(svg("text", { x: x(tick), y: box.bottom + 17, "text-anchor": "middle" }, xTexts[place])));
  canvas.append(svg("text", { x: box.right, y: box.bottom + 33, "text-anchor": "end", class: "axis" }, xTitle));
}
// Draws published results as dashed lines. Their names are at the left, above or below the line, if there is room.
function referenceLines(canvas, box, y, lines, busy = []) {
  const heights = lines.map(([, value]) => y(value)), taken = [...busy];
  for (const at of new Set(heights)) canvas.append(svg("line", { x1: box.left, x2: box.right, y1: at, y2: at, class: "reference" }));
  lines.forEach(([label, value], number) => {
    const wide = 6.2 * label.length + 10, at = heights[number];
    const spots = [0, 1, 2].flatMap((step) => [-5, 13].map((down) => ({ down, left: box.left + 6 + step * 100 })));
    const rated = spots.map((spot) => {
      const own = { left: spot.left, right: spot.left + wide, top: at + spot.down - 11, bottom: at + spot.down + 3 };
      const crossed = heights.filter((one) => one !== at && one > own.top && one < own.bottom).length;
      const covered = taken.filter((one) => own.right > one.left && own.left < one.right && own.bottom > one.top && own.top < one.bottom).length;
      return { ...own, down: spot.down, bad: 2 * covered + crossed };
    });
    const best = rated.reduce((one, other) => (other.bad < one.bad ? other : one));
    taken.push(best);
    canvas.append(svg("text", { x: best.left, y: at + best.down, class: "reference" }, label, svg("title", {}, `${label}: ${count(value)}`)));
  });
  return taken;
}
