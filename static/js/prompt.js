// The prompt cell: Enter sends, and words are kept in this browser until the program has them.
// While the latest prompt is written again, the words that were in the box before wait in `draft`.
(() => {
  const form = document.getElementById("prompt-form");
  if (!form) return;
  const box = document.getElementById("prompt-text");
  const place = `storyengine.prompt.${form.dataset.chapter}`;
  const key = () => document.getElementById("submission-key");
  const notice = document.getElementById("prompt-notice");
  const WAITS = "The reply before is still being written. Your words stay here: send them when it is done, or press Stop first.";
  const again = document.getElementById("again");
  const upper = () => document.getElementById("play-upper").dataset;
  let draft = "";
  let sent = null;
  let isSending = false;

  // Each window keeps its own words over a reload; those typed last anywhere are also kept for a
  // window that is opened later. Private windows may refuse both: the words are then only in the box.
  const ticks = [...form.querySelectorAll("[name=witnesses]")];
  const absent = () => ticks.filter((tick) => !tick.checked).map((tick) => tick.value);
  // Whoever answers perceives it in any case.
  const answering = () => form.querySelector("[name=agent_slot]:checked");
  const tellPerceivers = () => {
    const perceiving = ticks.filter((tick) => tick.checked || tick.value === answering()?.value);
    const names = perceiving.map((tick) => tick.dataset.name);
    const only = `Only ${names.slice(0, -1).join(", ")}${names.length > 1 ? " and " : ""}${names.at(-1)} ${names.length > 1 ? "see" : "sees"} it`;
    const told = document.getElementById("perceivers");
    if (told) told.textContent = perceiving.length === ticks.length ? "Everyone sees it" : only;
  };
  const nameRecipient = () => {
    const chosen = answering();
    if (!chosen) return;
    box.placeholder = `What happens in front of ${chosen.dataset.name}?`;
    const pill = chosen.closest(".pill");
    const row = pill.parentElement;
    row.scrollLeft = pill.offsetLeft - (row.clientWidth - pill.offsetWidth) / 2;
  };
  const tickAllBut = (slots) => {
    for (const tick of ticks) tick.checked = !slots.includes(tick.value);
    tellPerceivers();
  };

  const attempt = (act) => {
    try {
      return act();
    } catch {
      return null;
    }
  };
  const STORES = [() => sessionStorage, () => localStorage];
  let own = STORES.reduce((found, store) => found ?? attempt(() => store().getItem(place)), null);

  const keep = () => {
    const entry = box.value ? JSON.stringify({ text: box.value, key: key().value, sent: sent?.text, absent: absent(), again: again.value, draft }) : null;
    for (const store of STORES) {
      attempt(() => {
        if (entry) store().setItem(place, entry);
        // What another window put there since is not this one's to remove.
        else if (store().getItem(place) === own) store().removeItem(place);
      });
    }
    own = entry;
  };
  const write = (text) => {
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const putIn = (words) => {
    write(box.value.trim() ? `${words}\n\n${box.value}` : words);
    box.focus();
  };
  const setAgain = (number) => {
    const told = document.getElementById("writes-again");
    again.value = number;
    told.hidden = !number;
    told.querySelector("span").textContent = number;
  };
  const leaveAgain = (text) => {
    const waiting = draft;
    draft = "";
    setAgain("");
    write([text, waiting].filter(Boolean).join("\n\n"));
  };
  const unsentOf = (words, sentWords) => (words.startsWith(sentWords) ? words.slice(sentWords.length).trimStart() : words);

  const kept = attempt(() => JSON.parse(own));
  const hasArrived = kept?.sent && kept.key + (kept.again ? "-written" : "") === upper().lastKey;
  const rest = hasArrived ? unsentOf(kept.text, kept.sent) : kept?.text;
  const isAgain = Boolean(kept?.again) && !hasArrived && kept.again === upper().latest;
  const words = isAgain ? rest : [rest, kept?.draft].filter(Boolean).join("\n\n");
  if (isAgain) {
    draft = kept.draft;
    setAgain(kept.again);
  }
  if (words && !hasArrived && kept.absent?.length) tickAllBut(kept.absent);
  tellPerceivers();
  // Under the same key, so that words whose answer was lost cannot become two prompts.
  if (words && !hasArrived) key().value = kept.key;
  if (words) write(box.value && box.value !== words ? `${words}\n\n${box.value}` : words);
  else keep();

  // Words of another window become this one's own when they are changed here.
  box.addEventListener("input", keep);
  form.addEventListener("change", ({ target }) => {
    if (target.name === "witnesses") keep();
    tellPerceivers();
    nameRecipient();
  });
  // As soon as the new row is there, before the browser draws it from its beginning.
  document.addEventListener("htmx:oobAfterSwap", nameRecipient);
  // Where a finger types, there is no Shift: Enter alone breaks the line.
  const isTouch = matchMedia("(hover: none) and (pointer: coarse)").matches;
  box.enterKeyHint = isTouch ? "enter" : "send";
  visualViewport?.addEventListener("resize", () => {
    // The forms of the search and of an edited reply are hidden by a keyboard as the prompt's is.
    const typed = visualViewport.scale === 1 && document.activeElement.closest("form");
    if (isTouch && typed) typed.scrollIntoView({ block: "nearest" });
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || event.keyCode === 229) return;
    if ((isTouch || event.shiftKey) && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const send = form.querySelector("[data-send]");
    if (send && !send.disabled) form.requestSubmit(send);
    // A second Enter sends nothing before the first is answered.
    else if (box.value.trim() && !(isSending && box.value === sent?.text)) notice.textContent = WAITS;
  });

  form.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt !== form) return;
    sent = { text: box.value, key: key().value };
    isSending = true;
    keep();
  });
  form.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt !== form) return;
    isSending = false;
    // Nothing is being written: what could not be sent says so by itself.
    if (form.querySelector("[data-send]")) notice.textContent = "";
  });
  document.body.addEventListener("prompt-accepted", (event) => {
    if (!sent || event.detail.key !== sent.key) return;
    const { text } = sent;
    sent = null;
    // The next prompt is everybody's again, and the choice makes room.
    tickAllBut([]);
    form.querySelector(".witnesses")?.removeAttribute("open");
    // What was typed while the request was on its way stays.
    leaveAgain(unsentOf(box.value, text));
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-puts-back]");
    if (!link) return;
    event.preventDefault();
    document.getElementById(`panel-${link.dataset.putsBack}`)?.click();
    const holder = link.closest(".broken, .set-aside, .turn-acts");
    const perceived = [...holder.querySelectorAll("[name=witnesses]")].map((one) => one.value);
    // Without such a list everybody perceived it; with an empty list nobody did.
    const isListed = holder.querySelector("[name=witnesses_of]") !== null;
    tickAllBut(isListed ? ticks.map((tick) => tick.value).filter((slot) => !perceived.includes(slot)) : []);
    const { value } = holder.querySelector("[name=user_text]");
    const number = link.dataset.again;
    if (!number) {
      putIn(value);
      return;
    }
    if (!again.value) draft = box.value;
    setAgain(number);
    write(value);
    box.focus();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-leaves-again]")) return;
    event.preventDefault();
    tickAllBut([]);
    leaveAgain("");
    box.focus();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-suggests]");
    if (!link) return;
    event.preventDefault();
    putIn(link.dataset.suggests);
  });

  // A reply that broke off brings back whom it was asked of; under words that are being typed for
  // somebody else the choice stays, and the program is told of it as of any other.
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { detail } = event;
    const isBringingBack = event.target.id === "prompt-panels" && detail.fragment.querySelector("[data-brings-back]");
    if (!isBringingBack || !box.value.trim()) return;
    const chosen = event.target.querySelector("[name=agent_slot]:checked");
    const coming = detail.fragment.querySelector("[name=agent_slot][checked]");
    if (!chosen || chosen.value === coming?.value) return;
    detail.shouldSwap = false;
    htmx.trigger(chosen, "change");
  });

  // The finished reply is newer than what a poll may be bringing.
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.target.id === "running") htmx.trigger("#main", "htmx:abort");
  });

  // A button that was pressed is gone after the reply; the next words belong into the box.
  document.addEventListener("htmx:load", (event) => {
    nameRecipient();
    if (event.target.id === "prompt-panels") tellPerceivers();
    // Play has gone on in another window: the words are for a prompt of their own.
    if (again.value && again.value !== upper().latest) leaveAgain(box.value);
    const isDone = event.target.id === "prompt-controls" && event.target.querySelector("[data-send]");
    if (isDone) notice.textContent = "";
    const isFree = document.activeElement === document.body;
    if (isDone && isFree && matchMedia("(pointer: fine)").matches) box.focus({ preventScroll: true });
  });

  // A button that leads to a page of its own sends the form as a browser does, past htmx.
  form.addEventListener(
    "submit",
    (event) => {
      if (!event.submitter?.hasAttribute("data-plain")) return;
      event.stopImmediatePropagation();
      // htmx would send the form's next words to the address of the button that was clicked last.
      event.submitter.dispatchEvent(new Event("focusout", { bubbles: true }));
    },
    { capture: true },
  );
})();
