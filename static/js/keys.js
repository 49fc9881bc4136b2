// Keys of the play page. They do nothing while one types, in a dialog, or once they are switched off.
(() => {
  const PLACE = "storyengine.keys";
  const box = document.getElementById("keys-on");
  const dialog = document.getElementById("keys-dialog");
  if (!box) return;
  try {
    box.checked = localStorage.getItem(PLACE) !== "off";
  } catch {
    // A browser that keeps nothing begins with them.
  }
  box.addEventListener("change", () => {
    try {
      localStorage.setItem(PLACE, box.checked ? "on" : "off");
    } catch {
      // Then the choice holds until the page is left.
    }
  });

  const press = (selector) => () => document.querySelector(selector)?.click();
  const turnTo = (by) => () => {
    const panels = [...document.querySelectorAll("#prompt-panels [type=radio]")];
    const at = panels.findIndex((one) => one.checked);
    const next = panels[(at + by + panels.length) % panels.length];
    next?.click();
    document.getElementById("announcement").textContent = next ? `${next.dataset.name} answers.` : "";
  };
  const ACTS = {
    "?": () => dialog.showModal(),
    "/": press("#search-link"),
    n: turnTo(1),
    p: turnTo(-1),
    r: press("#another-reply"),
    s: press("[data-stop]"),
    w: () => document.getElementById("prompt-text").focus(),
  };

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    const isTyping = target.closest("textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])");
    if (key === "Escape" && target.id === "prompt-text" && !event.isComposing) {
      document.getElementById("transcript").focus({ preventScroll: true });
    }
    const isHeld = event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing;
    if (isTyping || isHeld || !box.checked || document.querySelector("dialog[open]")) return;
    if (!Object.hasOwn(ACTS, key)) return;
    event.preventDefault();
    ACTS[key]();
  });
})();
