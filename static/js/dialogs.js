// Native dialogs: [data-opens="id"] opens one, a click beside it closes it; Esc works by itself.
// [data-popup] is a <details> that Esc and its [data-closes] close, with its fields as they were.
(() => {
  const isBeside = (dialog, event) => {
    const box = dialog.getBoundingClientRect();
    const isAcross = event.clientX >= box.left && event.clientX <= box.right;
    const isAlong = event.clientY >= box.top && event.clientY <= box.bottom;
    return !(isAcross && isAlong);
  };

  const closePopup = (popup) => {
    popup.open = false;
    popup.querySelector("form").reset();
    for (const field of popup.querySelectorAll("[data-limit]")) {
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }
    popup.querySelector("summary").focus();
  };

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing || document.querySelector("dialog[open]")) return;
    const popup = event.target.closest("[data-popup][open]") ?? document.querySelector("[data-popup][open]");
    if (popup) closePopup(popup);
  });
  document.addEventListener("click", (event) => {
    const popup = event.target.closest("[data-closes]")?.closest("[data-popup]");
    if (!popup || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    closePopup(popup);
  });

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.opens);
      if (!dialog || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      // A dialog that needs a text in one of these fields is refused while all of them are empty.
      const { needs, refusal } = dialog.dataset;
      const isRefused = needs && [...document.querySelectorAll(needs)].every((field) => !field.value.trim());
      if (needs) opener.dispatchEvent(new CustomEvent("refused", { bubbles: true, detail: isRefused ? refusal : "" }));
      if (!isRefused) dialog.showModal();
    } else if (event.target instanceof HTMLDialogElement && event.detail && isBeside(event.target, event)) {
      event.target.close();
    }
  });
})();
