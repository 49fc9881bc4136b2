// When a chapter is reset or deleted, the browser forgets the words that were not sent yet.
document.addEventListener("submit", ({ target }) => {
  if (!target.matches("[data-forgets]")) return;
  try {
    for (const store of [sessionStorage, localStorage]) {
      store.removeItem(`storyengine.prompt.${target.dataset.forgets}`);
    }
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
});
