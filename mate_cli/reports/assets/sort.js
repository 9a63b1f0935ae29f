// Sorting: a click on a heading sorts the table by the numbers of the cells, best first, or by their text.
function sortBy(heading) {
  heading.closest("table").complete?.();
  const body = heading.closest("table").tBodies[0];
  const column = heading.cellIndex, numeric = heading.classList.contains("number");
  const old = heading.getAttribute("aria-sort");
  const down = old ? old === "ascending" : numeric && heading.dataset.better !== "less";
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
  heading.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    sortBy(heading);
  });
});
