// What went wrong is said beside what the GM was doing: in the form's own .refusal, else the next one.
(() => {
  const page = () => document.getElementById("page-refusal");

  const slotOf = (element) => {
    const inside = element.querySelector(".refusal");
    if (inside) return inside;
    const slots = [...document.querySelectorAll(".refusal")];
    const isAfter = (slot) => element.compareDocumentPosition(slot) & Node.DOCUMENT_POSITION_FOLLOWING;
    const isSeen = (slot) => !slot.closest("dialog:not([open])");
    return slots.find((slot) => isAfter(slot) && isSeen(slot)) ?? page();
  };

  // What is said is a text, or a paragraph that is made already.
  const say = (slot, said) => {
    slot.replaceChildren();
    if (!said) return;
    const message = document.createElement("div");
    message.className = "message message-error";
    message.append(said.nodeType ? said : Object.assign(document.createElement("p"), { textContent: said }));
    slot.append(message);
  };

  const explain = (status) => {
    if (status === 403) return "The page is out of date. Reload it and send this again; nothing was changed.";
    if (status === 404) return "That is not there any more: the chapter may have been reset or deleted.";
    if (status === 400 || status === 413) return "The program could not read this. Nothing was changed.";
    return `The program met an error of its own (${status}). Nothing was changed; try again.`;
  };

  const silence = (isAskedAgain) =>
    `The program does not answer. Nothing typed is lost; ${isAskedAgain ? "it is asked again" : "try again in a moment"}.`;

  const isPoll = (detail) => !detail.requestConfig?.triggeringEvent;

  const report = (detail, text) => {
    const element = detail.requestConfig.elt;
    if (element.closest("[data-quiet]")) return;
    say(isPoll(detail) ? page() : slotOf(element), text);
  };

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!isPoll(event.detail)) say(slotOf(event.detail.elt), "");
  });
  // A refusal of the program's own says where it belongs; any other error page is not for swapping.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { detail } = event;
    if (!detail.isError || detail.xhr.getResponseHeader("HX-Retarget")) return;
    detail.shouldSwap = false;
    report(detail, explain(detail.xhr.status));
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful && isPoll(event.detail)) say(page(), "");
  });
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, ({ detail }) => report(detail, silence(isPoll(detail))));
  }
  document.addEventListener("refused", (event) => say(slotOf(event.target), event.detail));
})();
