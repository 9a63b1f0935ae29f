// Runs: which of them are shown, and what the shown ones come to by a setting.
function runTable(table) {
  const get = (name) => document.getElementById(`run-${name}`);
  const rows = [...table.tBodies[0].rows], place = get("groups");
  const settings = new Map(rows.map((row) => [row, JSON.parse(row.dataset.settings)]));
  const texts = new Map(rows.map((row) => [row, [row.textContent, ...Object.entries(settings.get(row)).map(([key, value]) => `${key}=${value}`)].join(" ").toLowerCase()]));
  const score = (row) => row.querySelectorAll("td")[2];

  function cell(name, text, kind) {
    const one = document.createElement(name);
    one.textContent = text;
    if (kind) one.className = kind;
    return one;
  }
  function line(name, ...cells) {
    const one = document.createElement("tr");
    one.append(...cells.map((text, number) => cell(number ? name : "th", text, number ? "number" : "")));
    return one;
  }
  // Mean and deviation of the scores of a group; the unit is that of the table.
  function summed(found) {
    const values = found.map((row) => parseFloat(score(row).textContent)).filter(Number.isFinite);
    if (!values.length) return ["–", "–", "–"];
    const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
    const spread = Math.sqrt(values.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (values.length - 1));
    return [mean, values.length > 1 ? spread : NaN, Math.max(...values)].map((one) => (Number.isFinite(one) ? one.toFixed(1) : "–"));
  }
  function draw() {
    const words = get("filter").value.toLowerCase().split(/\s+/).filter(Boolean), only = get("picked").checked;
    const shown = rows.filter((row) => words.every((word) => texts.get(row).includes(word)) && (!only || row.querySelector(".pick").checked));
    rows.forEach((row) => { row.hidden = !shown.includes(row); });
    get("count").textContent = `${shown.length} of ${rows.length} runs`;
    const key = get("group").value;
    place.hidden = !key;
    if (!key) return;
    const groups = new Map();
    for (const row of shown) {
      const value = settings.get(row)[key] ?? "–";
      groups.set(value, [...(groups.get(value) ?? []), row]);
    }
    const made = document.createElement("table"), head = document.createElement("thead"), body = document.createElement("tbody");
    head.append(line("th", key, "runs", `mean ${place.dataset.metricTitle}`, "deviation", "highest"));
    const sorted = [...groups].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    body.append(...sorted.map(([value, found]) => line("td", value, found.length, ...summed(found))));
    made.append(head, body);
    place.replaceChildren(made);
  }
  get("filter").addEventListener("input", draw);
  for (const name of ["group", "picked"]) get(name).addEventListener("change", draw);
  table.addEventListener("change", (event) => { if (event.target.matches(".pick")) draw(); });
  draw();
}
const runs = document.querySelector("table.runs");
if (runs) runTable(runs);
