"use strict";
// Sorting: a click on a heading sorts its table by the number behind each cell, else by its text.
function sortBy(heading) {
  const table = heading.closest("table"), body = table.tBodies[0];
  const column = heading.cellIndex, numeric = heading.classList.contains("number");
  const old = heading.getAttribute("aria-sort");
  const down = old ? old === "ascending" : numeric;
  heading.parentElement.querySelectorAll("th").forEach((one) => one.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => (numeric ? parseFloat(row.cells[column].dataset.value) : row.cells[column].textContent);
  const compare = (a, b) => {
    const x = key(a), y = key(b);
    if (!numeric) return (down ? -1 : 1) * x.localeCompare(y, "en", { numeric: true });
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return down ? y - x : x - y;
  };
  [...body.rows].sort(compare).forEach((row) => body.append(row));
}
document.querySelectorAll("tr.sort th").forEach((heading) => {
  heading.tabIndex = 0;
  heading.addEventListener("click", () => sortBy(heading));
  heading.addEventListener("keydown", (event) => { if (event.key === "Enter") sortBy(heading); });
});

// Legend: hovering a name fades the other lines, clicking hides its own.
const lines = [...document.querySelectorAll(".curve g[id]")].filter((one) => /-g\d+-\d+$/.test(one.id));
const groupOf = (line) => line.id.match(/-g(\d+)-\d+$/)[1];
document.querySelectorAll(".legend button").forEach((button) => {
  const group = button.dataset.group;
  const fade = (on) => lines.forEach((line) => line.classList.toggle("faint", on && groupOf(line) !== group));
  button.addEventListener("mouseenter", () => fade(true));
  button.addEventListener("mouseleave", () => fade(false));
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    lines.filter((line) => groupOf(line) === group).forEach((line) => line.classList.toggle("gone", !shown));
  });
});

// Hover over a chart: the step, and each configuration's mean there.
const names = [...document.querySelectorAll(".legend button")];
const corners = (line) => [...line.querySelector("path").getAttribute("d").matchAll(/[ML] ?([-\d.]+) ([-\d.]+)/g)]
  .map((found) => [parseFloat(found[1]), parseFloat(found[2])]);
function chart(figure) {
  const [left, right, bottom, top, x0, x1, y0, y1] = figure.dataset.plot.split(" ").map(Number);
  const svg = figure.querySelector("svg"), tip = document.createElement("div");
  tip.className = "tip";
  figure.append(tip);
  const runs = lines.filter((line) => figure.contains(line))
    .map((line) => ({ line, group: groupOf(line), points: corners(line) })).filter((run) => run.points.length);
  const at = (x) => {
    const means = new Map();
    for (const { line, group, points } of runs) {
      if (line.classList.contains("gone")) continue;
      const [px, py] = points.reduce((best, one) => (Math.abs(one[0] - x) < Math.abs(best[0] - x) ? one : best));
      if (Math.abs(px - x) > 24) continue;
      const value = y0 + ((py - bottom) / (top - bottom)) * (y1 - y0);
      means.set(group, [...(means.get(group) ?? []), value]);
    }
    return [...means].map(([group, all]) => [group, all.reduce((sum, one) => sum + one, 0) / all.length]);
  };
  figure.addEventListener("mousemove", (event) => {
    const scale = svg.viewBox.baseVal.width / svg.getBoundingClientRect().width;
    const x = (event.clientX - svg.getBoundingClientRect().left) * scale;
    const rows = x < left - 4 || x > right + 4 ? [] : at(x).sort((a, b) => b[1] - a[1]);
    tip.style.display = rows.length ? "block" : "none";
    if (!rows.length) return;
    tip.replaceChildren(`step ${Math.round(x0 + ((x - left) / (right - left)) * (x1 - x0))}`);
    for (const [group, value] of rows) {
      const row = document.createElement("div"), name = names[Number(group)];
      row.append(name.querySelector("i").cloneNode(), `${value.toPrecision(3)}${figure.dataset.unit}`, ` ${name.textContent}`);
      tip.append(row);
    }
    const half = x > (left + right) / 2;
    tip.style.left = half ? "auto" : `${x / scale + 14}px`;
    tip.style.right = half ? `${figure.clientWidth - x / scale + 14}px` : "auto";
  });
  figure.addEventListener("mouseleave", () => { tip.style.display = "none"; });
}
document.querySelectorAll(".curve[data-plot]").forEach(chart);

// Copy buttons; a page opened as a file has no clipboard in some browsers, so an old way stands by.
async function copy(text) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
document.querySelectorAll(".copy").forEach((button) => button.addEventListener("click", async () => {
  await copy(button.dataset.text);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1200);
}));
