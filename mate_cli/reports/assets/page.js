// Small things: copy buttons, menus that choose what is shown, the search among questions, printing.
async function copy(text) {
  try { await navigator.clipboard.writeText(text); } catch { // a page opened as a file has no clipboard in some browsers
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

const barMenu = document.getElementById("bar-metric");
barMenu?.addEventListener("change", () => document.querySelectorAll("[data-metric]").forEach((block) => {
  block.hidden = block.dataset.metric !== barMenu.value;
}));

const filter = document.getElementById("question-filter");
filter?.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  document.querySelectorAll("#question-list > li").forEach((card) => {
    const text = card.textContent.toLowerCase();
    card.hidden = !words.every((word) => text.includes(word));
    shown += !card.hidden;
  });
  document.getElementById("question-count").textContent = `${shown} ${shown === 1 ? "question" : "questions"}`;
});

// Paper has no folds: whatever is closed opens for it, and closes again.
const folds = [...document.querySelectorAll("details")];
let opened = [];
addEventListener("beforeprint", () => {
  opened = folds.filter((one) => !one.open);
  opened.forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
