// The saved state in the header: htmx saves field by field, this says whether all of it arrived.
(() => {
  const RETRY_AFTER = 4000;
  const state = document.getElementById("saved-state");
  // What is said aloud: a field that could not be saved, and that it is saved after all.
  const said = document.getElementById("said");
  let wasNotSaved = false;
  const unsaved = new Set();
  const failed = new Set();
  // What no later try can save: its chapter is locked or gone. It holds back no link and no form.
  const refused = new Set();
  const sent = new WeakMap();
  // What goes on once everything is saved: a form to send, or an address to go to.
  let next = null;

  const isSaved = (element) => element instanceof Element && element.matches("[data-autosave]");

  const waits = () => unsaved.size > refused.size;
  const saveNow = () => unsaved.forEach((field) => refused.has(field) || htmx.trigger(field, "save"));

  // What holds back a form or a link is shown with its reason: it may be behind a dialog, or in a
  // panel that is not shown.
  const bringIntoView = (field) => {
    document.querySelector("dialog[open]")?.close();
    document.getElementById(`shown-${field.closest("[data-slot]")?.dataset.slot}`)?.click();
    field.focus({ preventScroll: true });
    field.scrollIntoView({ block: "center" });
  };

  const show = () => {
    const words = failed.size ? "not saved" : unsaved.size ? "saving…" : "saved";
    if (state.textContent !== words) state.textContent = words;
    if (failed.size || (wasNotSaved && !unsaved.size)) said.textContent = failed.size ? "Not saved" : "Saved";
    wasNotSaved = failed.size > 0 || (wasNotSaved && unsaved.size > 0);
    state.classList.toggle("is-saving", words === "saving…");
    state.classList.toggle("is-not-saved", words === "not saved");
    const open = [...failed].find((field) => !refused.has(field));
    if (open && next) {
      next = null;
      bringIntoView(open);
    }
    if (!waits() && next) {
      const go = next;
      next = null;
      go();
    }
  };

  const waitFor = (event, go) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    next = go;
    unsaved.forEach((field) => refused.has(field) || failed.delete(field));
    saveNow();
  };

  for (const name of ["input", "change"]) {
    document.addEventListener(name, (event) => {
      if (!isSaved(event.target) || (name === "change" && sent.get(event.target) === event.target.value)) return;
      if (name === "change" && event.target.tagName !== "SELECT") return;
      unsaved.add(event.target);
      refused.delete(event.target);
      show();
    });
  }
  // A text that is too long would be refused; it stays here, as one that could not be saved.
  document.addEventListener("htmx:configRequest", (event) => {
    const { elt } = event.detail;
    if (!isSaved(elt) || !elt.validity.customError) return;
    event.preventDefault();
    failed.add(elt);
    show();
  });
  document.addEventListener("htmx:beforeRequest", ({ detail }) => {
    if (isSaved(detail.elt)) sent.set(detail.elt, detail.elt.value);
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    const field = detail.elt;
    if (!isSaved(field)) return;
    if (detail.successful) {
      failed.delete(field);
      refused.delete(field);
      if (field.value === sent.get(field)) unsaved.delete(field);
      // A name that was another's may be free now.
      const isOfNames = (one) => one.matches("[data-names], [data-agent-count]");
      if (isOfNames(field)) failed.forEach((one) => isOfNames(one) && !refused.has(one) && htmx.trigger(one, "save"));
    } else {
      failed.add(field);
      const { status } = detail.xhr;
      if (unsaved.has(field) && (status === 423 || status === 404)) refused.add(field);
      // 409: a chapter that is being written takes its instructions again when it is done; one that
      // is being started opens again when that fails.
      const mayHelp = !status || status === 409 || status >= 500;
      if (mayHelp) setTimeout(() => unsaved.has(field) && htmx.trigger(field, "save"), RETRY_AFTER);
    }
    show();
  });

  document.addEventListener("submit", (event) => {
    if (!waits() || !event.target.matches("[data-waits-for-save]")) return;
    const { target, submitter } = event;
    waitFor(event, () => target.requestSubmit(submitter));
  }, true);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]:not([data-opens])");
    if (!waits() || !link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    waitFor(event, () => link.click());
  }, true);
  // What was typed before the scripts had come counts as typed now; only then is it known whether
  // everything is saved, and until then the header says nothing.
  document.addEventListener("DOMContentLoaded", () => {
    for (const field of document.querySelectorAll("[data-autosave]")) {
      const isSelect = field.tagName === "SELECT";
      const before = isSelect ? field.querySelector("[selected]")?.value : field.defaultValue;
      if (field.value !== before) field.dispatchEvent(new Event(isSelect ? "change" : "input", { bubbles: true }));
    }
    show();
  });
  window.addEventListener("beforeunload", (event) => {
    if (!unsaved.size) return;
    saveNow();
    event.preventDefault();
  });
})();
