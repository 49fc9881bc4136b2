// How long something has been waited for: [data-waited] says how many seconds it was before the page came.
(() => {
  const WORTH_SAYING = 3;
  const begun = new WeakMap();

  const tick = () => {
    const now = performance.now() / 1000;
    for (const element of document.querySelectorAll("[data-waited]")) {
      if (!begun.has(element)) begun.set(element, now - Number(element.dataset.waited));
      const seconds = Math.round(now - begun.get(element));
      const minutes = Math.floor(seconds / 60);
      if (seconds < WORTH_SAYING) continue;
      element.textContent = minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
    }
  };

  tick();
  setInterval(tick, 1000);
})();
