// The choices of a reader stay for as long as the tab is open.
const memory = (() => {
  const key = `mate compare ${location.pathname}`;
  let kept = {};
  try { kept = JSON.parse(sessionStorage.getItem(key)) ?? {}; } catch { /* storage may be switched off */ }
  return {
    get: (name, otherwise) => kept[name] ?? otherwise,
    set: (name, value) => {
      kept[name] = value;
      try { sessionStorage.setItem(key, JSON.stringify(kept)); } catch { /* then the choice is forgotten */ }
    },
  };
})();
document.querySelectorAll(".script select, .script input").forEach((control) => {
  const box = control.type === "checkbox", kept = memory.get(control.id);
  if (kept !== undefined && box) control.checked = kept;
  if (kept !== undefined && !box && (!control.options || [...control.options].some((one) => one.value === kept))) control.value = kept;
  control.addEventListener("change", () => memory.set(control.id, box ? control.checked : control.value));
});
