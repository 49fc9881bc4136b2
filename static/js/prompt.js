// The prompt cell: Enter sends, and words are kept in this browser until the program has them.
(() => {
  const form = document.getElementById("prompt-form");
  if (!form) return;
  const box = document.getElementById("prompt-text");
  const place = `storyengine.prompt.${form.dataset.chapter}`;
  const key = () => document.getElementById("submission-key");
  let sent = null;

  const read = () => {
    try {
      return JSON.parse(localStorage.getItem(place));
    } catch {
      return null;
    }
  };
  const keep = () => {
    try {
      if (box.value) localStorage.setItem(place, JSON.stringify({ text: box.value, key: key().value }));
      else localStorage.removeItem(place);
    } catch {
      // Private windows may refuse; the words are then only in the box.
    }
  };
  const write = (text) => {
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  };

  const kept = read();
  const newest = document.getElementById("play-upper").dataset.lastKey;
  if (kept?.text && kept.key !== newest) {
    // Under the same key, so that words whose answer was lost cannot become two prompts.
    key().value = kept.key;
    write(box.value && box.value !== kept.text ? `${kept.text}\n\n${box.value}` : kept.text);
  } else {
    keep();
  }

  box.addEventListener("input", keep);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    const send = form.querySelector("[data-send]");
    if (send && !send.disabled) form.requestSubmit(send);
  });

  form.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt === form) sent = { text: box.value, key: key().value };
  });
  document.body.addEventListener("prompt-accepted", (event) => {
    if (!sent || event.detail.key !== sent.key) return;
    // What was typed while the request was on its way stays.
    if (box.value.startsWith(sent.text)) write(box.value.slice(sent.text.length).trimStart());
    sent = null;
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-puts-back]");
    if (!link) return;
    event.preventDefault();
    const words = link.closest(".broken").querySelector("[name=user_text]").value;
    write(box.value.trim() ? `${words}\n\n${box.value}` : words);
    document.getElementById(`panel-${link.dataset.putsBack}`)?.click();
    box.focus();
  });

  // The finished reply is newer than what a poll may be bringing.
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.target.id === "running") htmx.trigger("#main", "htmx:abort");
  });

  // A button that was pressed is gone after the reply; the next words belong into the box.
  document.addEventListener("htmx:load", (event) => {
    const isDone = event.target.id === "prompt-controls" && event.target.querySelector("[data-send]");
    const isFree = document.activeElement === document.body;
    if (isDone && isFree && matchMedia("(pointer: fine)").matches) box.focus({ preventScroll: true });
  });
})();
