// Runs: filters the rows, and summarizes the shown runs by a setting.
function runTable(table) {
  const get = (name) => document.getElementById(`run-${name}`);
  const rows = [...table.tBodies[0].rows], place = get("groups");
  const later = readData("run-data") ?? { rows: [], texts: [] };
  const settings = new Map(), texts = new Map(), total = rows.length + later.rows.length;
  const score = (row) => row.querySelectorAll("td")[3];
  function know(row, own) {
    settings.set(row, own);
    texts.set(row, [row.textContent, ...Object.entries(own).map(([key, value]) => `${key}=${value}`)].join(" ").toLowerCase());
  }
  rows.forEach((row) => know(row, JSON.parse(row.dataset.settings)));

  function link(text, place) {
    const one = element("a", "", text);
    one.href = place;
    return one;
  }
  // Renders a row like the rows in the page, from the values of `later_runs`.
  function runRow([name, place, inside, status, above, network, reason, started, seed, full, shown, seconds, time, files, chosen, words]) {
    const text = (at) => later.texts[at], home = text(place) + (inside ? `${name}/` : "");
    const pick = element("input", "script pick"), head = element("th", "", pick, link(name, home)), command = words.map(text).join(" ");
    Object.assign(pick, { type: "checkbox", ariaLabel: "pick this run" });
    head.scope = "row";
    if (text(above)) head.append(element("small", "", text(above)));
    head.append(element("small", "files", ...files.map((at) => text(at).split("\n")).map(([title, file]) => link(title, home + file))));
    const state = element("td", "", pill(text(status))), copied = element("button", "copy", "Copy"), code = element("code", "", command);
    if (text(reason)) state.append(element("div", "reason", text(reason)));
    copied.type = "button";
    copied.dataset.text = code.title = command;
    const numbers = [[seed, seed], [full, shown], [seconds, time]].map(([value, written]) => {
      const one = element("td", written ? "number" : "number nothing", written || "–");
      if (value) one.dataset.value = value;
      return one;
    });
    const row = element("tr", "", head, element("td", "", text(network) || "–"), state, ...numbers, element("td", "date", text(started)));
    row.append(element("td", "", command ? element("span", "command", code, copied) : "–"));
    know(row, Object.fromEntries(chosen.map((at) => text(at).split("\n"))));
    rows.push(row);
    return row;
  }
  function line(name, ...cells) {
    const one = document.createElement("tr");
    one.append(...cells.map((text, number) => element(number ? name : "th", number ? "number" : "", text)));
    return one;
  }
  // Mean and standard deviation of the scores of a group, in the unit of the table.
  function summed(found) {
    const values = found.map((row) => parseFloat(score(row).textContent)).filter(Number.isFinite);
    if (!values.length) return ["–", "–", "–"];
    const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
    const spread = Math.sqrt(values.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (values.length - 1));
    return [mean, values.length > 1 ? spread : NaN, Math.max(...values)].map((one) => (Number.isFinite(one) ? one.toFixed(1) : "–"));
  }
  function draw() {
    if (get("filter").value || get("picked").checked || get("group").value) table.complete?.();
    const words = get("filter").value.toLowerCase().split(/\s+/).filter(Boolean), only = get("picked").checked;
    const shown = rows.filter((row) => words.every((word) => texts.get(row).includes(word)) && (!only || row.querySelector(".pick").checked));
    rows.forEach((row) => { row.hidden = !shown.includes(row); });
    get("count").textContent = `${shown.length} of ${total} runs`;
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
  const more = document.querySelector("#run-data + .more");
  if (more) laterRows(table, later.rows, runRow, more);
  draw();
}
const runs = document.querySelector("table.runs");
if (runs) runTable(runs);
