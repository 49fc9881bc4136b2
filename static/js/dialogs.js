// Native dialogs: [data-opens="id"] opens one, a click beside it closes it; Esc works by itself.
(() => {
  const isBeside = (dialog, event) => {
    const box = dialog.getBoundingClientRect();
    const isAcross = event.clientX >= box.left && event.clientX <= box.right;
    const isAlong = event.clientY >= box.top && event.clientY <= box.bottom;
    return !(isAcross && isAlong);
  };

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.opens);
      if (!dialog || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      dialog.showModal();
    } else if (event.target instanceof HTMLDialogElement && event.detail && isBeside(event.target, event)) {
      event.target.close();
    }
  });
})();
