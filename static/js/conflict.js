// Two windows on one field: the user chooses between the words here and those that were saved
// elsewhere. data-seen marks the value that this window has seen last.
(() => {
  const marks = JSON.parse(document.querySelector("[data-seen-values]").dataset.seenValues);
  for (const field of document.querySelectorAll("[data-autosave]")) {
    if (marks[field.name]) field.dataset.seen = marks[field.name];
  }

  document.addEventListener("htmx:configRequest", ({ detail }) => {
    // A form that sends the field tells what the field has seen.
    const { seen } = (detail.elt.querySelector("[data-autosave][data-seen]") ?? detail.elt).dataset;
    if (seen) detail.headers["X-Seen"] = seen;
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    const seen = detail.successful && detail.xhr.getResponseHeader("X-Seen");
    if (seen) detail.elt.dataset.seen = seen;
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-keeps]");
    if (!button) return;
    const field = document.getElementsByName(button.dataset.field)[0];
    field.dataset.seen = button.dataset.seen;
    if (button.dataset.keeps === "other") field.value = button.closest(".message").querySelector(".other-words").textContent;
    field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", { bubbles: true }));
    htmx.trigger(field, "save");
    field.focus();
  });
})();
