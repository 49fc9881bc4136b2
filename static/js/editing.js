// The form that edits a reply: Cancel closes it, and changed words are not lost without a question.
(() => {
  const isChanged = () => {
    const field = document.getElementById("edited-text");
    return field && field.value !== field.defaultValue;
  };
  const focusLink = () => [...document.querySelectorAll("[data-edits]")].find((one) => one.offsetParent)?.focus({ preventScroll: true });

  document.addEventListener("click", (event) => {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (!isPlain || !event.target.closest("[data-closes-edit]")) return;
    event.preventDefault();
    document.getElementById("edit-area").replaceChildren();
    focusLink();
  });
  // The form that is open comes first.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!event.detail.elt.matches("[data-edits]") || !isChanged()) return;
    event.preventDefault();
    document.getElementById("edited-text").focus();
  });
  // A form that was saved is gone, and the link that opened it stands in the new play area.
  document.addEventListener("htmx:load", (event) => {
    if (event.target.id === "edit-area") focusLink();
  });
  window.addEventListener("beforeunload", (event) => {
    if (isChanged()) event.preventDefault();
  });
})();
