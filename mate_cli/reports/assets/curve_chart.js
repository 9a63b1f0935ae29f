// One chart of learning curves, and the numbers under the pointer.
function curveChart(place, lines, published, { title, percent, direction, axis, log, tall }) {
  const figure = document.createElement("figure"), caption = document.createElement("figcaption");
  caption.textContent = percent ? `${title} (%)` : title;
  figure.className = "chart";
  figure.append(caption);
  place.append(figure);
  const width = Math.max(260, figure.clientWidth), height = tall ? 380 : 250;
  const box = { left: 44, right: width - 10, top: 10, bottom: height - 42 };
  const canvas = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": `${caption.textContent} by ${axis.title}, ${lines.length} lines` });
  figure.append(canvas);
  const fits = (y) => !log || y > 0;
  const shown = lines.filter((line) => line.ys.some(fits));
  if (!shown.length) {
    canvas.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "nothing to draw"));
    return;
  }
  const ends = shown.flatMap((line) => [line.xs[0], line.xs[line.xs.length - 1]]);
  const x = scale(Math.min(...ends), Math.max(...ends), box.left, box.right);
  const values = shown.flatMap((line) => [...line.raw, ...(line.low ?? []), ...(line.high ?? [])]).concat(published.map(([, value]) => value));
  const y = scale(...withRoom(values.filter(fits), log), box.bottom, box.top, log);
  const wanted = Math.max(4, Math.floor(width / 90)), [first, last] = [Math.min(...ends), Math.max(...ends)];
  const ticks = axis.write === duration ? timeTicks(first, last, wanted) : roundTicks(first, last, wanted, axis.least);
  axes(canvas, box, x, y, ticks, y.ticks(5), axis.write, count, axis.title);
  referenceLines(canvas, box, y, published);
  shown.forEach((line) => canvas.append(drawLine(line, x, y, fits)));
  readout(figure, canvas, box, shown, x, y, { axis, percent, direction, fits });
}

// The ends of the y axis: slightly wider than the range of the values, and zero if the values are close to it.
function withRoom(values, log) {
  const low = Math.min(...values), high = Math.max(...values);
  if (log) return [low / 1.05, high * 1.05];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - (low >= 0 && low < room ? low : room), high + room];
}

function drawLine(line, x, y, fits) {
  const { index } = line.group, all = svg("g", { "data-group": index, class: "curve" });
  const path = (xs, ys) => xs.map((one, i) => (fits(ys[i]) ? `${x(one).toFixed(1)},${y(ys[i]).toFixed(1)}` : "")).filter(Boolean).join("L");
  const colour = `stroke:${paint(index)}`;
  if (line.low) {
    const area = `M${path(line.xs, line.low)}L${path([...line.xs].reverse(), [...line.high].reverse())}z`;
    all.append(svg("path", { d: area, style: `fill:${paint(index)}`, class: "range" }));
  }
  if (line.ys !== line.raw) all.append(svg("path", { d: `M${path(line.xs, line.raw)}`, style: colour, class: "raw" }));
  all.append(svg("path", { d: `M${path(line.xs, line.ys)}`, style: colour, "stroke-dasharray": dash(index), class: "line" }));
  const every = Math.max(1, Math.ceil(line.xs.length / 7));
  line.xs.forEach((one, i) => { if (i % every === Math.floor(every / 2) && fits(line.ys[i])) all.append(shape(index, x(one), y(line.ys[i]), 3)); });
  return all;
}

// The numbers at the position of the pointer, or of the arrow keys, best first.
function readout(figure, canvas, box, lines, x, y, { axis, percent, direction, fits }) {
  const tip = document.createElement("div"), guide = svg("line", { y1: box.top, y2: box.bottom, class: "guide" }), dots = svg("g");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  figure.append(tip);
  canvas.append(guide, dots);
  let place = null;
  const say = (value) => (percent ? value.toFixed(1) : count(value));

  function hide() {
    tip.style.display = "none";
    guide.style.display = "none";
    dots.replaceChildren();
    place = null;
  }
  function nearest(line) {
    const near = line.xs.reduce((best, one, i) => (Math.abs(x(one) - place) < Math.abs(x(line.xs[best]) - place) ? i : best), 0);
    return { line, near, value: line.ys[near] };
  }
  function row({ line, near, value }) {
    const one = document.createElement("div"), number = document.createElement("b"), name = document.createElement("span");
    number.textContent = say(value) + (line.low ? ` (${say(line.low[near])} to ${say(line.high[near])})` : "");
    name.textContent = line.group.label + (line.group.runs.length > 1 ? `, ${line.name}` : "");
    one.append(sample(line.group.index), number, name);
    return one;
  }
  function show(pixel) {
    place = Math.min(box.right, Math.max(box.left, pixel));
    const found = lines.map(nearest).filter(({ line, near, value }) => Math.abs(x(line.xs[near]) - place) < 26 && fits(value));
    found.sort((a, b) => (direction || 1) * (b.value - a.value));
    guide.style.display = "";
    guide.setAttribute("x1", place);
    guide.setAttribute("x2", place);
    dots.replaceChildren(...found.map(({ line, near, value }) => shape(line.group.index, x(line.xs[near]), y(value), 4.5)));
    tip.style.display = found.length ? "block" : "none";
    tip.replaceChildren(`${axis.title} ${axis.read(x.back(place))}`, ...found.slice(0, 12).map(row));
    if (found.length > 12) tip.append(`and ${found.length - 12} more`);
    const whole = canvas.viewBox.baseVal.width, zoom = canvas.getBoundingClientRect().width / whole;
    const right = place > (box.left + box.right) / 2;
    tip.style.left = right ? "auto" : `${place * zoom + 14}px`;
    tip.style.right = right ? `${(whole - place) * zoom + 14}px` : "auto";
  }
  hide();
  for (const kind of ["pointermove", "pointerdown"]) canvas.addEventListener(kind, (event) => {
    const area = canvas.getBoundingClientRect();
    show((event.clientX - area.left) * (canvas.viewBox.baseVal.width / area.width));
  });
  canvas.addEventListener("pointerleave", hide);
  canvas.addEventListener("blur", hide);
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -12, ArrowRight: 12 }[event.key];
    if (event.key === "Escape") hide();
    if (!move) return;
    event.preventDefault();
    show(place === null ? (move > 0 ? box.left : box.right) : place + move);
  });
}
