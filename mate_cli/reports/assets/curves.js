// Learning curves: controls, legend and charts. Every change redraws the charts.
function learningCurves(data) {
  const get = (id) => document.getElementById(`curve-${id}`);
  const charts = get("charts");
  const beside = (group) => data.groups.filter((one) => one.block === group.block);
  const state = { metrics: new Set(), hidden: new Set(), off: new Set() };
  const logged = (metric) => data.groups.some((group) => group.block === Number(get("block").value) && group.runs.some((run) => metric in run.values));

  function drawAll() {
    const block = Number(get("block").value), axis = AXES[get("x").value];
    const chosen = (group, number) => group.block === block && !state.hidden.has(group.index) && !state.off.has(`${group.index}-${number}`);
    const choices = { axis, weight: Number(get("smoothing").value), mean: get("kind").value === "mean", chosen };
    const drawn = [...state.metrics].filter(logged).sort((one, other) => one - other), tall = drawn.length === 1;
    charts.replaceChildren();
    charts.classList.toggle("one", tall);
    get("legend").querySelectorAll(".item").forEach((item) => { item.hidden = item.dataset.block !== String(block); });
    for (const metric of drawn) {
      const { title, percent, direction, lines } = data.metrics[metric];
      const published = get("lines")?.checked ? lines[block].map(([label, value]) => [label, value * (percent ? 100 : 1)]) : [];
      const look = { title, percent, direction, axis, log: get("log").checked, tall };
      curveChart(charts, linesOf(data, metric, choices), published, look);
    }
  }

  // A toggle button. `change` is called on each click.
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

  // The legend: a name toggles its lines. "only" hides all other lines, and shows them again on a second click.
  function show(hidden) {
    state.hidden = hidden;
    memory.set("hidden", data.groups.filter((group) => hidden.has(group.index)).map((group) => group.label));
    get("legend").querySelectorAll("[data-group]").forEach((button) => {
      button.setAttribute("aria-pressed", String(!hidden.has(Number(button.dataset.group))));
    });
    drawAll();
  }
  function fade(index) {
    charts.querySelectorAll(".curve").forEach((line) => line.classList.toggle("faint", index !== null && line.dataset.group !== String(index)));
  }
  function legendItem(group) {
    const item = document.createElement("span");
    item.className = "item";
    item.dataset.block = group.block;
    toggle(group.label, true, () => {
      const hidden = new Set(state.hidden);
      if (!hidden.delete(group.index)) hidden.add(group.index);
      show(hidden);
    }, item, sample(group.index)).dataset.group = group.index;
    if (data.groups.length > 1) {
      const only = toggle("only", false, () => {
        const hidden = new Set(state.hidden), others = beside(group).filter((one) => one !== group);
        const alone = !hidden.delete(group.index) && others.every((one) => hidden.has(one.index));
        others.forEach((one) => (alone ? hidden.delete(one.index) : hidden.add(one.index)));
        show(hidden);
      }, item);
      only.className = "only";
      only.removeAttribute("aria-pressed");
      only.setAttribute("aria-label", `only ${group.label}`);
    }
    item.addEventListener("mouseenter", () => fade(group.index));
    item.addEventListener("mouseleave", () => fade(null));
    return item;
  }
  function buildLegend() {
    get("legend").append(...data.groups.map(legendItem));
    if (data.groups.length < 3) return;
    const all = toggle("show all", false, () => show(new Set()), get("legend"));
    all.className = "all";
    all.removeAttribute("aria-pressed");
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
    data.metrics.forEach((metric, number) => {
      if (kept.includes(metric.name)) state.metrics.add(number);
      toggle(metric.title, state.metrics.has(number), (button) => {
        if (!state.metrics.delete(number)) state.metrics.add(number);
        button.setAttribute("aria-pressed", String(state.metrics.has(number)));
        memory.set("metrics", [...state.metrics].map((one) => data.metrics[one].name));
        drawAll();
      }, get("metrics"));
    });
  }
  // Another dataset has other logged metrics. If it has none of the selected metrics, its first metric is selected.
  function offerMetrics() {
    const buttons = [...get("metrics").children], known = [...data.metrics.keys()].filter(logged);
    buttons.forEach((button, metric) => { button.hidden = !known.includes(metric); });
    if (known.some((metric) => state.metrics.has(metric))) return;
    for (const metric of known.slice(0, 4)) {
      state.metrics.add(metric);
      buttons[metric].setAttribute("aria-pressed", "true");
    }
  }
  function prepareControls() {
    const runs = data.groups.flatMap((group) => group.runs);
    const known = { epochs: runs.some((run) => run.epochs[0].length), seconds: runs.some((run) => run.seconds[0].length) };
    known.examples = runs.some((run) => run.size && run.epochs[0].length);
    for (const option of [...get("x").options]) if (known[option.value] === false) option.remove();
    get("kind").closest("label").hidden = runs.length === data.groups.length;
    if (runs.length > data.groups.length && runs.length > 12) get("kind").value = memory.get("curve-kind", "mean");
    get("block").addEventListener("change", offerMetrics);
    for (const id of ["x", "kind", "log", "lines", "block"]) get(id)?.addEventListener("change", drawAll);
    const writeSmoothing = () => {
      document.querySelector("output[for=curve-smoothing]").textContent = trim(Number(get("smoothing").value).toFixed(2));
    };
    get("smoothing").addEventListener("input", () => { writeSmoothing(); drawAll(); });
    writeSmoothing();
  }

  buildLegend();
  buildRuns();
  buildMetrics();
  offerMetrics();
  prepareControls();
  const later = data.groups.filter((group) => beside(group).indexOf(group) >= Number(charts.dataset.first));
  const hidden = memory.get("hidden", later.map((group) => group.label));
  show(new Set(data.groups.filter((group) => hidden.includes(group.label)).map((group) => group.index)));
  let width = charts.clientWidth;
  new ResizeObserver(() => { if (Math.abs(charts.clientWidth - width) > 1) { width = charts.clientWidth; drawAll(); } }).observe(charts);
}
const curveData = readData("curve-data");
if (curveData) learningCurves(curveData);
