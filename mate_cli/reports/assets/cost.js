// A score against a cost: a point per configuration, labeled with its name, with the spread over seeds as whiskers.
function costChart(data) {
  const get = (id) => document.getElementById(`cost-${id}`);
  const place = get("chart");

  // Long names are truncated in the middle, because names usually differ at their ends.
  const shortened = (text, most) => (text.length <= most ? text : `${text.slice(0, most / 3)}…${text.slice(1 - (2 * most) / 3)}`);
  // A name is placed right, left, above or below its point, or omitted if it would cover a point or another name.
  function label(canvas, box, taken, point, text) {
    const name = svg("text", { class: "name" }, text), { x, y } = point;
    canvas.append(name);
    const wide = name.getComputedTextLength();
    const spots = [4, -10, 18, -24, 32].flatMap((down) => [[x + 9, y + down, "start", x + 9], [x - 9, y + down, "end", x - 9 - wide], [x, y + down, "middle", x - wide / 2]]);
    for (const [tx, ty, anchor, left] of spots) {
      const own = { left, right: left + wide, top: ty - 11, bottom: ty + 3 };
      const free = taken.every((one) => own.right < one.left || own.left > one.right || own.bottom < one.top || own.top > one.bottom);
      if (!free || own.left < box.left - 4 || own.right > box.right + 6 || own.top < 0) continue;
      taken.push(own);
      for (const [key, value] of [["x", tx], ["y", ty], ["text-anchor", anchor]]) name.setAttribute(key, value);
      return;
    }
    name.remove();
  }

  function draw() {
    const metric = Number(get("score").value), cost = Number(get("cost").value);
    const block = Number(get("block").value), { title, percent, lines } = data.metrics[metric], factor = percent ? 100 : 1, kind = data.costs[cost];
    const points = data.groups.filter((group) => group.block === block && group.scores[metric] && group.costs[cost]).map((group) => ({
      group, cost: group.costs[cost][0], costSpread: group.costs[cost][1], score: factor * group.scores[metric][0], spread: factor * group.scores[metric][1],
    }));
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    figure.className = "chart";
    caption.textContent = `${title}${percent ? " (%)" : ""} against ${kind.title.toLowerCase().replace("flops", "FLOPs")}`;
    figure.append(caption);
    place.replaceChildren(figure);
    const width = Math.max(260, figure.clientWidth), height = Math.min(420, Math.max(280, width * 0.5));
    const box = { left: 44, right: width - 14, top: 14, bottom: height - 42 };
    const canvas = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${caption.textContent}, ${points.length} configurations` });
    figure.append(canvas);
    if (!points.length) { canvas.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no configuration has both")); return; }
    const log = get("log").checked, published = lines[block].map(([name, value]) => [name, value * factor]);
    const scores = points.flatMap((one) => [one.score - one.spread, one.score + one.spread]).concat(published.map(([, value]) => value));
    const room = (Math.max(...scores) - Math.min(...scores) || factor) * 0.14;
    const y = scale(Math.max(Math.min(0, Math.min(...scores)), Math.min(...scores) - room), Math.max(...scores) + room, box.bottom, box.top);
    const least = (one) => Math.max(one.cost - one.costSpread, log ? one.cost / 10 : 0), most = (one) => one.cost + one.costSpread;
    let low = Math.min(...points.map(least)), high = Math.max(...points.map(most));
    if (low === high) { low *= 0.5; high *= 1.5; }
    [low, high] = log ? [low / (high / low) ** 0.12, high * (high / low) ** 0.12] : [Math.max(0, low - (high - low) * 0.15), high + (high - low) * 0.15];
    const x = scale(low, high, box.left, box.right, log), wanted = Math.max(4, Math.floor(width / 110)), write = WRITE[kind.kind];
    const xTicks = log ? x.ticks(wanted) : kind.kind === "duration" ? timeTicks(low, high, wanted) : roundTicks(low, high, wanted);
    axes(canvas, box, x, y, xTicks, y.ticks(6), write, count, kind.title.toLowerCase().replace("flops", "FLOPs"));
    const marks = points.map((one) => ({ ...one, x: x(one.cost), y: y(one.score) }));
    const covered = marks.map((one) => ({ left: one.x - 7, right: one.x + 7, top: one.y - 7, bottom: one.y + 7 }));
    const taken = referenceLines(canvas, box, y, published, covered);
    for (const [, value] of published) taken.push({ left: box.left, right: box.right, top: y(value), bottom: y(value) });
    for (const one of marks) {
      const sides = svg("g", { class: "whiskers", style: `stroke:${paint(one.group.index)}` });
      const spans = [];
      if (one.spread) spans.push({ left: one.x, right: one.x, top: y(one.score + one.spread), bottom: y(one.score - one.spread) });
      if (one.costSpread) spans.push({ left: x(least(one)), right: x(most(one)), top: one.y, bottom: one.y });
      for (const { left, right, top, bottom } of spans) sides.append(svg("line", { x1: left, x2: right, y1: top, y2: bottom }));
      taken.push(...spans);
      const mark = shape(one.group.index, one.x, one.y, 5.5);
      mark.append(svg("title", {}, `${one.group.label}: ${one.score.toFixed(1)}, ${write(one.cost)}`));
      canvas.append(sides, mark);
    }
    const longest = width < 500 ? 20 : 44;
    for (const one of marks) label(canvas, box, taken, one, shortened(one.group.label, longest));
  }

  // Costs that differ by a large factor are easier to distinguish on a log scale.
  function suggest() {
    const groups = data.groups.filter((group) => group.block === Number(get("block").value));
    const costs = groups.map((group) => group.costs[get("cost").value]?.[0]).filter(Boolean);
    get("log").checked = Math.max(...costs) > 20 * Math.min(...costs);
  }
  for (const id of ["cost", "block"]) {
    get(id).addEventListener("change", () => { suggest(); memory.set("cost-log", get("log").checked); draw(); });
  }
  for (const id of ["score", "log"]) get(id).addEventListener("change", draw);
  if (memory.get("cost-log") === undefined) suggest();
  draw();
  let width = place.clientWidth;
  new ResizeObserver(() => { if (Math.abs(place.clientWidth - width) > 1) { width = place.clientWidth; draw(); } }).observe(place);
}
const costData = readData("cost-data");
if (costData) costChart(costData);
