// Learning curves: the reader's choices are in `state`, and any change of them draws the charts anew.
function learningCurves(data) {
  const get = (id) => document.getElementById(`curve-${id}`);
  const charts = get("charts");
  const state = { metrics: new Set(), hidden: new Set(), off: new Set(), focus: null };
  const passed = (clock, step) => between(clock[0], clock[1], step);
  const whole = (value) => Math.round(value).toLocaleString("en");
  const AXES = {
    steps: { title: "step", at: (run, step) => step, write: count, read: whole },
    epochs: { title: "epoch", at: (run, step) => passed(run.epochs, step), write: count, read: (epochs) => epochs.toFixed(2) },
    examples: { title: "training examples seen", at: (run, step) => passed(run.epochs, step) * run.size, write: count, read: whole },
    seconds: { title: "wall time", at: (run, step) => passed(run.seconds, step), write: duration, read: duration },
  };

  // The value at x on the line through the points, NaN outside of it.
  function between(xs, ys, x) {
    if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return NaN;
    let low = 0, high = xs.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle; else high = middle; }
    return xs[high] === xs[low] ? ys[high] : ys[low] + ((x - xs[low]) / (xs[high] - xs[low])) * (ys[high] - ys[low]);
  }

  // Exponential moving average that starts at the first value without leaning to zero.
  function smooth(ys, weight) {
    let sum = 0, mass = 0;
    return ys.map((y) => { sum = weight * sum + (1 - weight) * y; mass = weight * mass + (1 - weight); return sum / mass; });
  }

  const isChosen = (group) => group.dataset === Number(get("dataset").value);

  // The lines of a metric: one per run that is shown, or the mean of each configuration with the range of its runs.
  function linesOf(metric) {
    const factor = data.metrics[metric].percent ? 100 : 1, axis = AXES[get("x").value], weight = Number(get("smoothing").value);
    const lines = [];
    for (const group of data.groups) {
      if (state.hidden.has(group.index) || !isChosen(group)) continue;
      const runs = [];
      group.runs.forEach((run, number) => {
        if (!(metric in run.values) || state.off.has(`${group.index}-${number}`)) return;
        const [grid, values] = run.values[metric];
        const points = run.grids[grid].map((step, i) => [axis.at(run, step), values[i] * factor]).filter(([x]) => Number.isFinite(x));
        if (points.length) runs.push({ group, name: run.name, xs: points.map(([x]) => x), raw: points.map(([, y]) => y) });
      });
      lines.push(...(get("kind").value === "mean" ? meanOf(group, runs) : runs));
    }
    for (const line of lines) line.ys = weight > 0 ? smooth(line.raw, weight) : line.raw;
    return lines;
  }
  function meanOf(group, runs) {
    if (runs.length < 2) return runs;
    const longest = runs.reduce((best, run) => (run.xs[run.xs.length - 1] > best.xs[best.xs.length - 1] ? run : best));
    const rows = longest.xs.map((x) => runs.map((run) => between(run.xs, run.raw, x)).filter(Number.isFinite));
    const mean = rows.map((row) => row.reduce((sum, y) => sum + y, 0) / row.length);
    return [{ group, name: `mean of ${runs.length}`, xs: longest.xs, raw: mean, low: rows.map((row) => Math.min(...row)), high: rows.map((row) => Math.max(...row)) }];
  }

  function draw(metric) {
    const { title, percent, lines: published } = data.metrics[metric];
    const lines = linesOf(metric), log = get("log").checked, axis = AXES[get("x").value];
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    caption.textContent = percent ? `${title} (%)` : title;
    figure.append(caption);
    figure.className = "chart";
    charts.append(figure);
    const width = Math.max(260, figure.clientWidth), height = state.metrics.size === 1 ? 380 : 250;
    const box = { left: 44, right: width - 10, top: 10, bottom: height - 42 };
    const canvas = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": `${caption.textContent} by ${axis.title}, ${lines.length} lines` });
    figure.append(canvas);
    const shown = get("lines")?.checked ? published[Number(get("dataset").value)].map(([label, value]) => [label, value * (percent ? 100 : 1)]) : [];
    const fits = (y) => !log || y > 0;
    const ys = lines.flatMap((line) => [...line.raw, ...(line.low ?? []), ...(line.high ?? [])]).concat(shown.map(([, y]) => y)).filter(fits);
    const xs = lines.flatMap((line) => [line.xs[0], line.xs[line.xs.length - 1]]);
    if (!ys.length || !xs.length) { canvas.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "nothing to draw")); return; }
    let low = Math.min(...ys), high = Math.max(...ys);
    if (log) { low /= 1.05; high *= 1.05; } else { const room = (high - low || Math.abs(high) || 1) * 0.06; low -= low >= 0 && low < room ? low : room; high += room; }
    const x = scale(Math.min(...xs), Math.max(...xs), box.left, box.right), y = scale(low, high, box.bottom, box.top, log);
    const wanted = Math.max(4, Math.floor(width / 90)), ends = [Math.min(...xs), Math.max(...xs)];
    const xTicks = axis.write === duration ? timeTicks(...ends, wanted) : roundTicks(...ends, wanted);
    axes(canvas, box, x, y, xTicks, y.ticks(5), axis.write, count, axis.title);
    referenceLines(canvas, box, y, shown);
    const path = (line, values) => line.xs.map((one, i) => (fits(values[i]) ? `${x(one).toFixed(1)},${y(values[i]).toFixed(1)}` : "")).filter(Boolean).join("L");
    for (const line of lines) {
      const { index } = line.group, all = svg("g", { "data-group": index, class: "curve" });
      if (line.low) all.append(svg("path", { d: `M${path(line, line.low)}L${path({ xs: [...line.xs].reverse() }, [...line.high].reverse())}z`, style: `fill:${paint(index)}`, class: "range" }));
      if (line.ys !== line.raw) all.append(svg("path", { d: `M${path(line, line.raw)}`, style: `stroke:${paint(index)}`, class: "raw" }));
      all.append(svg("path", { d: `M${path(line, line.ys)}`, style: `stroke:${paint(index)}`, "stroke-dasharray": dash(index), class: "line" }));
      const every = Math.max(1, Math.ceil(line.xs.length / 7));
      line.xs.forEach((one, i) => { if (i % every === Math.floor(every / 2) && fits(line.ys[i])) all.append(shape(index, x(one), y(line.ys[i]), 3)); });
      canvas.append(all);
    }
    readout(figure, canvas, box, lines.filter((line) => line.ys.some(fits)), x, y, axis, percent, fits);
  }

  // The numbers under the pointer, or where the arrow keys have moved to.
  function readout(figure, canvas, box, lines, x, y, axis, percent, fits) {
    const tip = document.createElement("div"), guide = svg("line", { y1: box.top, y2: box.bottom, class: "guide" }), dots = svg("g");
    tip.className = "tip";
    tip.setAttribute("role", "status");
    figure.append(tip);
    canvas.append(guide, dots);
    let place = null;
    function hide() { tip.style.display = "none"; guide.style.display = "none"; dots.replaceChildren(); place = null; }
    function show(pixel) {
      place = Math.min(box.right, Math.max(box.left, pixel));
      const rows = lines.map((line) => {
        const near = line.xs.reduce((best, one, i) => (Math.abs(x(one) - place) < Math.abs(x(line.xs[best]) - place) ? i : best), 0);
        return { line, near, value: line.ys[near] };
      }).filter(({ line, near, value }) => Math.abs(x(line.xs[near]) - place) < 26 && fits(value)).sort((a, b) => b.value - a.value);
      guide.style.display = "";
      guide.setAttribute("x1", place);
      guide.setAttribute("x2", place);
      dots.replaceChildren(...rows.map(({ line, near, value }) => shape(line.group.index, x(line.xs[near]), y(value), 4.5)));
      tip.style.display = rows.length ? "block" : "none";
      tip.replaceChildren(`${axis.title} ${axis.read(x.back(place))}`);
      rows.slice(0, 12).forEach(({ line, near, value }) => {
        const row = document.createElement("div"), number = document.createElement("b"), name = document.createElement("span");
        const say = (one) => (percent ? one.toFixed(1) : count(one));
        number.textContent = say(value) + (line.low ? ` (${say(line.low[near])} to ${say(line.high[near])})` : "");
        name.textContent = line.group.label + (line.group.runs.length > 1 ? `, ${line.name}` : "");
        row.append(sample(line.group.index), number, name);
        tip.append(row);
      });
      if (rows.length > 12) tip.append(`and ${rows.length - 12} more`);
      const right = place > (box.left + box.right) / 2, room = canvas.getBoundingClientRect().width / canvas.viewBox.baseVal.width;
      tip.style.left = right ? "auto" : `${place * room + 14}px`;
      tip.style.right = right ? `${(canvas.viewBox.baseVal.width - place) * room + 14}px` : "auto";
    }
    hide();
    canvas.addEventListener("pointermove", (event) => {
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

  function drawAll() {
    charts.replaceChildren();
    get("legend").querySelectorAll(".item").forEach((item) => { item.hidden = item.dataset.dataset !== get("dataset").value; });
    charts.classList.toggle("one", state.metrics.size === 1);
    data.metrics.forEach((_, metric) => { if (state.metrics.has(metric)) draw(metric); });
  }

  function toggle(text, on, change, parent, ...before) {
    const button = document.createElement("button"), name = document.createElement("span");
    button.type = "button";
    button.title = text;
    name.textContent = text;
    button.append(...before, name);
    button.setAttribute("aria-pressed", String(on));
    button.addEventListener("click", () => change(button));
    parent.append(button);
    return button;
  }

  // The legend: a name hides and shows its lines, "only" hides all others, a second time shows all again.
  const buttons = new Map();
  function show(hidden) {
    state.hidden = hidden;
    memory.set("hidden", data.groups.filter((group) => hidden.has(group.index)).map((group) => group.label));
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(!hidden.has(index))));
    drawAll();
  }
  function fade(index) {
    charts.querySelectorAll(".curve").forEach((line) => line.classList.toggle("faint", index !== null && line.dataset.group !== String(index)));
  }
  function buildLegend() {
    const everyone = data.groups.map((group) => group.index);
    for (const group of data.groups) {
      const item = document.createElement("span");
      item.className = "item";
      item.dataset.dataset = group.dataset;
      const button = toggle(group.label, true, () => {
        const hidden = new Set(state.hidden);
        if (!hidden.delete(group.index)) hidden.add(group.index);
        show(hidden);
      }, item, sample(group.index));
      button.dataset.group = group.index;
      buttons.set(group.index, button);
      const only = document.createElement("button");
      only.type = "button";
      only.className = "only";
      only.textContent = "only";
      only.setAttribute("aria-label", `only ${group.label}`);
      only.addEventListener("click", () => {
        const alone = state.hidden.size === everyone.length - 1 && !state.hidden.has(group.index);
        show(new Set(alone ? [] : everyone.filter((index) => index !== group.index)));
      });
      if (data.groups.length > 1) item.append(only);
      item.addEventListener("mouseenter", () => fade(group.index));
      item.addEventListener("mouseleave", () => fade(null));
      get("legend").append(item);
    }
    if (data.groups.length > 2) {
      const all = toggle("show all", false, () => show(new Set()), get("legend"));
      all.className = "all";
      all.removeAttribute("aria-pressed");
    }
  }
  function buildRuns() {
    for (const group of data.groups.filter((one) => one.runs.length > 1)) {
      const row = document.createElement("div"), name = document.createElement("span");
      name.textContent = group.label;
      row.append(sample(group.index), name);
      group.runs.forEach((run, number) => toggle(run.name, true, (button) => {
        const key = `${group.index}-${number}`, on = state.off.delete(key);
        if (!on) state.off.add(key);
        button.setAttribute("aria-pressed", String(on));
        drawAll();
      }, row));
      get("runs").append(row);
    }
    get("runs").closest("details").hidden = !get("runs").childElementCount;
  }
  function buildMetrics() {
    const kept = memory.get("metrics", data.metrics.slice(0, 4).map((metric) => metric.name));
    const first = new Set([...data.metrics.keys()].filter((number) => kept.includes(data.metrics[number].name)));
    state.metrics = first;
    data.metrics.forEach((metric, number) => toggle(metric.title, first.has(number), (button) => {
      if (!state.metrics.delete(number)) state.metrics.add(number);
      button.setAttribute("aria-pressed", String(state.metrics.has(number)));
      memory.set("metrics", [...state.metrics].map((one) => data.metrics[one].name));
      drawAll();
    }, get("metrics")).dataset.number = number);
  }
  function dropEmptyAxes() {
    const runs = data.groups.flatMap((group) => group.runs);
    const known = { epochs: runs.some((run) => run.epochs[0].length), seconds: runs.some((run) => run.seconds[0].length) };
    known.examples = known.epochs && runs.some((run) => run.size && run.epochs[0].length);
    for (const option of [...get("x").options]) if (known[option.value] === false) option.remove();
  }

  buildLegend();
  buildRuns();
  buildMetrics();
  dropEmptyAxes();
  const many = memory.get("hidden", data.groups.slice(Number(charts.dataset.first)).map((group) => group.label));
  const runs = data.groups.reduce((sum, group) => sum + group.runs.length, 0);
  get("kind").closest("label").hidden = runs === data.groups.length;
  if (runs > data.groups.length && runs > 12) get("kind").value = memory.get("curve-kind", "mean");
  for (const id of ["x", "kind", "log", "lines", "dataset"]) get(id)?.addEventListener("change", drawAll);
  const writeSmoothing = () => {
    document.querySelector("output[for=curve-smoothing]").textContent = trim(Number(get("smoothing").value).toFixed(2));
  };
  get("smoothing").addEventListener("input", () => { writeSmoothing(); drawAll(); });
  writeSmoothing();
  show(new Set(data.groups.filter((group) => many.includes(group.label)).map((group) => group.index)));
  let width = charts.clientWidth;
  new ResizeObserver(() => { if (Math.abs(charts.clientWidth - width) > 1) { width = charts.clientWidth; drawAll(); } }).observe(charts);
}
const curveData = readData("curve-data");
if (curveData) learningCurves(curveData);
