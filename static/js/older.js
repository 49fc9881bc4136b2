// Older turns come above the window when its beginning is reached, and stay when it is drawn anew.
(() => {
  const transcript = () => document.getElementById("transcript");
  const numberOf = (turn) => Number(turn.dataset.turn);
  let isLoaded = false;
  let before = null;
  // The turns of the page while it is drawn anew: of thousands, htmx would look at every element.
  let held = null;

  // The notes say where the window begins; with the older turns above them there is nothing to say.
  const hideNotes = (list) => {
    for (const note of list.querySelectorAll(".transcript-note")) note.hidden = true;
  };

  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { scrollTop, scrollHeight } = transcript() ?? {};
    before = detail.target.id === "older" ? scrollHeight - scrollTop : null;
  });
  document.addEventListener("htmx:afterSwap", () => {
    const shown = transcript();
    if (before === null || !shown) return;
    isLoaded = true;
    hideNotes(shown);
    shown.scrollTop = shown.scrollHeight - before;
    before = null;
  });

  const hold = () => {
    const list = isLoaded && transcript()?.querySelector(".turns");
    if (!list) return;
    held = [...list.querySelectorAll("[data-turn]:not(.is-latest)")];
    for (const turn of held) turn.remove();
    // Nothing was drawn after all.
    queueMicrotask(() => {
      if (!list.isConnected || !held) return;
      const link = document.getElementById("older");
      if (link) link.after(...held);
      else list.prepend(...held);
      held = null;
    });
  };
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.shouldSwap && detail.target.id === "play-upper") hold();
  });
  document.addEventListener("htmx:sseBeforeMessage", ({ detail }) => {
    if (detail.type === "ended") hold();
  });

  const bringBack = (old) => {
    const list = transcript()?.querySelector(".turns");
    const first = list?.querySelector("[data-turn]");
    const turns = held ?? [...old.querySelectorAll("[data-turn]")];
    held = null;
    if (!first || !turns.length) return;
    // All replies, or thoughts, are shown now or not any more: the older turns are loaded anew.
    isLoaded = list.dataset.shows === old.querySelector(".turns").dataset.shows;
    if (!isLoaded) return;
    const isPart = first.hasAttribute("data-part");
    const until = numberOf(first) + (isPart ? 1 : 0);
    const kept = turns.filter((turn) => numberOf(turn) < until);
    if (isPart) first.remove();
    const link = old.querySelector("#older")?.cloneNode(true);
    document.getElementById("older")?.remove();
    list.prepend(...(link ? [link] : []), ...kept);
    if (link) htmx.process(link);
    hideNotes(list);
  };
  new MutationObserver((records) => {
    if (!isLoaded) return;
    for (const { removedNodes } of records) {
      for (const node of removedNodes) if (node.id === "play-upper") bringBack(node);
    }
  }).observe(document.getElementById("main"), { childList: true, subtree: true });

  // A link to a turn that is on this page leads there without another page.
  document.addEventListener("click", (event) => {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
    const link = isPlain && event.target.closest("[data-goes-to]");
    const turn = link && document.getElementById(`prompt-${link.dataset.goesTo}`)?.closest(".turn");
    if (turn) {
      event.preventDefault();
      turn.scrollIntoView({ block: "start" });
      turn.focus({ preventScroll: true });
    }
    if (isPlain && event.target.closest("[data-closes-search]")) {
      event.preventDefault();
      document.getElementById("search-area").replaceChildren();
      document.getElementById("search-link").focus();
    }
  });
})();
