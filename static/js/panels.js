// The panels of Tab 1 side by side: how many there are, and what they are called.
(() => {
  const showPanels = (count) => {
    for (const pill of document.querySelectorAll("[data-pill]")) {
      pill.hidden = Number(pill.dataset.pill) > count;
    }
    const chosen = document.querySelector('[name="shown"]:checked');
    if (chosen && Number(chosen.value) > count) document.getElementById(`shown-${count}`).checked = true;
  };

  // The page comes back with the panel that was looked at last.
  const lastShown = `storyengine.shown.${location.pathname}`;
  const rememberShown = (panel) => {
    try {
      localStorage.setItem(lastShown, panel);
    } catch {
      // A browser that keeps nothing begins with the first panel.
    }
  };
  const restoreShown = () => {
    let panel = null;
    try {
      panel = localStorage.getItem(lastShown);
    } catch {
      return;
    }
    const choice = document.getElementById(`shown-${panel}`);
    if (choice && !choice.closest(".pill").hidden) choice.checked = true;
  };

  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-agent-count]")) showPanels(Number(target.value));
    if (target.matches('[name="shown"]')) rememberShown(target.value);
  });
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-names]")) return;
    const label = document.querySelector(`[data-name-of="${target.dataset.names}"]`);
    label.textContent = target.value.trim() || target.placeholder;
  });
  restoreShown();
})();
