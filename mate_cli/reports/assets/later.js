// Rows that are rendered on demand: when the user asks for more rows, sorts or searches.
const STEP = 200;
const readData = (id) => { const one = document.getElementById(id); return one && JSON.parse(one.textContent); };
function element(tag, kind, ...children) {
  const one = document.createElement(tag);
  if (kind) one.className = kind;
  one.append(...children);
  return one;
}

const pill = (text) => element("span", `pill ${text.split(" ").pop()}`, text);

// `table.complete()` renders all remaining rows.
function laterRows(table, records, build, button) {
  const waiting = [...records];
  function add(count) {
    table.tBodies[0].append(...waiting.splice(0, count).map(build));
    button.hidden = !waiting.length;
    button.textContent = `Show ${Math.min(STEP, waiting.length)} of ${waiting.length} more`;
  }
  table.complete = () => { if (waiting.length) add(waiting.length); };
  button.addEventListener("click", () => add(STEP));
  addEventListener("beforeprint", table.complete);
  add(0);
}

// Renders a row of numbers like the rows in the page, from its label, its class and its cells.
function numberRow(heads, [label, kind, cells]) {
  const head = element("th", "", label), row = element("tr", kind, head);
  head.scope = "row";
  cells.forEach(([text = "–", value, spread, mark, detail, states], place) => {
    if (states) { row.append(element("td", "", ...states.map(pill))); return; }
    const inner = element("span", "", text);
    if (spread) inner.append(element("small", "", ` ±${spread}`));
    if (detail) inner.append(element("small", "", ` ${detail}`));
    const kinds = [heads[place + 1].classList.contains("number") && "number", text === "–" && "nothing", mark];
    const cell = element("td", kinds.filter(Boolean).join(" "), inner);
    if (typeof value === "number") cell.dataset.value = value;
    row.append(cell);
  });
  return row;
}
document.querySelectorAll("table + script").forEach((script) => {
  const table = script.previousElementSibling, heads = table.tHead.rows[table.tHead.rows.length - 1].cells;
  laterRows(table, JSON.parse(script.textContent), (record) => numberRow(heads, record), script.nextElementSibling);
});
