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
