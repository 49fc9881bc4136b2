// A swap that takes away the focused element leaves the focus nowhere. It then goes to what stands in
// the same place: the element with the same id, or else the first control of the nearest part that is
// still there.
(() => {
  const CONTROLS = "a[href], button:not([disabled]), input:not([type=hidden]):not([disabled]), select, summary, textarea, [tabindex='0']";
  let last = null;
  let around = [];

  document.addEventListener("focusin", ({ target }) => {
    last = target;
    around = [];
    for (let one = target; one; one = one.parentElement) if (one.id) around.push(one.id);
  });

  const isShown = (one) => one.getClientRects().length > 0;
  const find = () => {
    for (const id of around) {
      const part = document.getElementById(id);
      if (!part || !isShown(part)) continue;
      if (part.matches(CONTROLS)) return part;
      const inside = id === "main" ? null : [...part.querySelectorAll(CONTROLS)].find(isShown);
      if (!inside) part.tabIndex = -1;
      return inside ?? part;
    }
    return null;
  };

  document.addEventListener("htmx:afterSettle", () => {
    if (document.activeElement !== document.body || !last || last.isConnected) return;
    find()?.focus({ preventScroll: true });
  });
})();
