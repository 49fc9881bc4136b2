// What can be done with a turn: one tab stop for each, and the arrow keys lead on from there.
(() => {
  const BAR = "[role=toolbar]";
  const actsOf = (bar) => [...bar.querySelectorAll("a, button, summary")].filter((one) => one.checkVisibility());
  const stopAt = (bar, stop) => {
    for (const one of bar.querySelectorAll("a, button, summary")) one.tabIndex = one === stop ? 0 : -1;
  };
  const settle = () => {
    const bar = document.getElementById("latest-acts");
    const acts = bar ? actsOf(bar) : [];
    if (acts.length) stopAt(bar, acts.find((one) => one === document.activeElement) ?? acts[0]);
  };

  document.addEventListener("keydown", (event) => {
    const bar = event.target.closest(BAR);
    if (!bar || event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = actsOf(bar);
    const at = acts.indexOf(event.target);
    const bars = [...document.querySelectorAll(BAR)];
    const stopOf = (by) => bars[bars.indexOf(bar) + by]?.querySelector("[tabindex='0'], a:not([tabindex])");
    const next = {
      ArrowRight: () => acts[at + 1],
      ArrowLeft: () => acts[at - 1],
      ArrowDown: () => stopOf(1),
      ArrowUp: () => stopOf(-1),
      Home: () => acts[0],
      End: () => acts.at(-1),
    }[event.key]?.();
    if (!next) return;
    event.preventDefault();
    stopAt(next.closest(BAR), next);
    next.focus();
  });

  // The turn as its text goes, as a selection would copy it.
  const copy = async (turn) => {
    const told = [...turn.querySelectorAll("p.entry:not(.thought)")];
    try {
      await navigator.clipboard.writeText(told.map((one) => one.innerText).join("\n\n"));
    } catch {
      // Without leave to write there, as over plain HTTP, the text is selected for the user to copy.
      getSelection().setBaseAndExtent(told[0], 0, told.at(-1), told.at(-1).childNodes.length);
      return "Selected";
    }
    return "Copied";
  };
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copies]");
    if (button) button.textContent = await copy(button.closest(".turn"));
    for (const menu of document.querySelectorAll(".more[open]")) {
      if (!menu.contains(target) || target.closest("a")) menu.open = false;
    }
  });
  document.addEventListener("keydown", ({ key, target }) => {
    const menu = key === "Escape" && target.closest(".more[open]");
    if (!menu) return;
    menu.open = false;
    menu.firstElementChild.focus();
  });

  new MutationObserver(settle).observe(document.getElementById("main"), { childList: true, subtree: true });
  settle();
})();
