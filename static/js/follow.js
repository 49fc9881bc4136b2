// New text is followed only by a reader who was at its end; others stay where they are.
(() => {
  const NEARLY = 60;
  // How much of what comes before stays in view above the last part.
  const PEEK = 28;
  const SCROLLED = "[data-follows], [data-shows-last], [data-keeps-place]";
  const places = new Map();
  const page = document.scrollingElement;

  // The end of a text is its last line; that of [data-shows-last], the beginning of its last part.
  // [data-keeps-place] has none to be taken to.
  const endOf = (element) => {
    if (element.matches("[data-keeps-place]")) return 0;
    const last = element.scrollHeight - element.clientHeight;
    const part = element.matches("[data-shows-last]") && element.lastElementChild;
    return part ? Math.min(last, part.offsetTop - element.firstElementChild.offsetTop - PEEK) : last;
  };
  // The turn at the upper edge of a transcript, and how far its beginning is from there. The heights
  // of turns that were not in view yet are guesses, so that a distance from the beginning says little.
  const anchorOf = (element) => {
    const { left, top, width } = element.getBoundingClientRect();
    const at = document.elementsFromPoint(left + width / 2, top + 8).find((one) => one.matches("[data-turn]"));
    return at && { id: at.id, offset: at.getBoundingClientRect().top - top };
  };
  const note = (element) => {
    const isAtEnd = Math.abs(endOf(element) - element.scrollTop) < NEARLY;
    const { scrollTop: top, clientWidth: width, clientHeight: height } = element;
    const anchor = element.matches?.("[data-follows]") && anchorOf(element);
    // What stands at the end need not be announced to who is there.
    element.dataset.end = isAtEnd;
    places.set(element.id || "page", { element, isAtEnd, top, width, height, anchor });
  };
  const bringBack = (element, { top, anchor }) => {
    element.scrollTop = top;
    const turn = anchor && document.getElementById(anchor.id);
    if (turn) element.scrollTop += turn.getBoundingClientRect().top - element.getBoundingClientRect().top - anchor.offset;
  };
  const isResized = (element) => {
    const place = places.get(element.id);
    return place?.element === element
      && (place.width !== element.clientWidth || place.height !== element.clientHeight);
  };
  const toEnd = (element) => {
    element.scrollTop = Math.max(element.scrollTop, endOf(element));
  };

  // A window that is resized, or a keyboard that opens, leaves a reader at the end there.
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const place = places.get(target.id);
      // One that was swapped out shrinks to nothing.
      if (place.element !== target) continue;
      if (place.isAtEnd) toEnd(target);
      note(target);
    }
  });

  const settle = () => {
    for (const element of document.querySelectorAll(SCROLLED)) {
      const place = places.get(element.id);
      const isNew = place?.element !== element;
      // A reader who has just scrolled up: the event of it comes later than the next words.
      if (!isNew && element.scrollTop < place.top - 1) place.isAtEnd = false;
      if (isNew && place) bringBack(element, place);
      if (place?.isAtEnd ?? !element.hasAttribute("data-starts-at-top")) toEnd(element);
      note(element);
      if (isNew) sizes.observe(element);
    }
    if (document.querySelector("[data-page-follows]") && places.get("page")?.isAtEnd) toEnd(page);
  };

  document.addEventListener("scroll", (event) => {
    const element = event.target === document ? page : event.target;
    if (element === page) note(page);
    // A new size scrolls too, before the observer hears of it; only a reader leaves the end.
    else if (element.matches(SCROLLED) && !isResized(element)) note(element);
  }, true);
  new MutationObserver(settle).observe(document.getElementById("main"), { childList: true, subtree: true });
  note(page);
  settle();

  // Who read from the top, as in a starter, sees the own words and the reply to them all the same.
  if (!document.querySelector("[data-starts-at-top]")) return;
  document.body.addEventListener("prompt-accepted", () => {
    const transcript = document.getElementById("transcript");
    toEnd(transcript);
    note(transcript);
  }, { once: true });
})();
