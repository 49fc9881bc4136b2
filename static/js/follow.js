// New text is followed only by a reader who was at its end; others stay where they are.
(() => {
  const NEARLY = 60;
  const places = new Map();
  const page = document.scrollingElement;

  const note = (element) => {
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEARLY;
    places.set(element.id || "page", { element, isAtEnd, top: element.scrollTop });
  };
  const toEnd = (element) => {
    element.scrollTop = element.scrollHeight;
  };

  const settle = () => {
    for (const element of document.querySelectorAll("[data-follows], [data-keeps-place]")) {
      const place = places.get(element.id);
      // A reader who has just scrolled up: the event of it comes later than the next words.
      if (place?.element === element && element.scrollTop < place.top - 1) place.isAtEnd = false;
      if (place ? place.isAtEnd : element.hasAttribute("data-follows")) toEnd(element);
      else if (place && place.element !== element) element.scrollTop = place.top;
      note(element);
    }
    if (document.querySelector("[data-page-follows]") && places.get("page")?.isAtEnd) toEnd(page);
  };

  document.addEventListener("scroll", (event) => {
    const element = event.target === document ? page : event.target;
    if (element === page || element.matches("[data-follows], [data-keeps-place]")) note(element);
  }, true);
  new MutationObserver(settle).observe(document.getElementById("main"), { childList: true, subtree: true });
  note(page);
  settle();
})();
