// Stores the choices of the user until the tab is closed.
const memory = (() => {
  const key = `mate compare ${location.pathname}`;
  let kept = {};
  try { kept = JSON.parse(sessionStorage.getItem(key)) ?? {}; } catch { /* Storage may be disabled. */ }
  return {
    get: (name, otherwise) => kept[name] ?? otherwise,
    set: (name, value) => {
      kept[name] = value;
      try { sessionStorage.setItem(key, JSON.stringify(kept)); } catch { /* The choice is then not stored. */ }
    },
  };
})();
document.querySelectorAll(".script select, .script input").forEach((control) => {
  const box = control.type === "checkbox", kept = memory.get(control.id);
  if (kept !== undefined && box) control.checked = kept;
  if (kept !== undefined && !box && (!control.options || [...control.options].some((one) => one.value === kept))) control.value = kept;
  control.addEventListener("change", () => memory.set(control.id, box ? control.checked : control.value));
});
