// Copy buttons, menus that select the shown part, the search for questions, and printing.
async function copy(text) {
  try { await navigator.clipboard.writeText(text); } catch { // A page opened as a file has no clipboard in some browsers.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
document.addEventListener("click", async ({ target: button }) => {
  if (!button.matches?.(".copy")) return;
  await copy(button.dataset.text);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1200);
});

const barMenu = document.getElementById("bar-metric");
function showBars() {
  document.querySelectorAll("[data-metric]").forEach((block) => { block.hidden = block.dataset.metric !== barMenu.value; });
}
barMenu?.addEventListener("change", showBars);
if (barMenu) showBars();

// Questions: the first few are shown initially, all others on demand. The search covers all questions.
function questionList(list) {
  const cards = [...list.children], filter = document.getElementById("question-filter"), more = document.getElementById("question-more");
  const menus = ["right", "wrong"].map((key) => [document.getElementById(`question-${key}`), key]);
  let most = Number(list.dataset.first);
  function show() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const told = (card) => menus.every(([menu, key]) => !menu.value || JSON.parse(card.dataset[key]).includes(menu.value));
    const found = cards.filter((card) => told(card) && words.every((word) => card.textContent.toLowerCase().includes(word)));
    cards.forEach((card) => { card.hidden = true; });
    found.slice(0, most).forEach((card) => { card.hidden = false; });
    document.getElementById("question-count").textContent = `${found.length} of ${cards.length} questions`;
    more.hidden = found.length <= most;
    more.textContent = `Show ${found.length - most} more`;
  }
  filter.addEventListener("input", show);
  for (const [menu] of menus) menu.addEventListener("change", show);
  more.addEventListener("click", () => { most = cards.length; show(); });
  show();
}
const questions = document.getElementById("question-list");
if (questions) questionList(questions);

// Closed sections are opened for printing, and closed again afterwards.
const folds = [...document.querySelectorAll("details")];
let opened = [];
addEventListener("beforeprint", () => {
  opened = folds.filter((one) => !one.open);
  opened.forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
