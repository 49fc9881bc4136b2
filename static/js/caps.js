// Counts and caps in code points, a line break as one, as the program counts them. (maxlength counts
// UTF-16 units, in which an emoji is two.) What is too long stays in its field, which says where the
// surplus begins; the browser sends no form with it, and autosave.js saves nothing of it.
(() => {
  // A reader hears the count only after a pause in typing, and only near the limit or above it.
  const NEAR = 0.9;
  const PAUSE = 1000;
  const FIRST_SIGNS = 60;
  let pause = 0;
  // What each field that is too long has last said of its surplus.
  const told = new WeakMap();

  const write = (number) => number.toLocaleString("en-US");
  const isCapped = (field) => field instanceof Element && field.matches("[data-limit]:not([readonly], [type=number])");
  const refuse = (field, detail) => field.dispatchEvent(new CustomEvent("refused", { bubbles: true, detail }));
  const make = (name, properties) => Object.assign(document.createElement(name), properties);

  const tell = (field, surplus, begins) => {
    const words = surplus.slice(0, FIRST_SIGNS).join("") + (surplus.length > FIRST_SIGNS ? "…" : "");
    const select = make("button", { type: "button", className: "link-button", textContent: "Select them" });
    select.addEventListener("click", () => {
      field.setSelectionRange(begins, field.value.length);
      field.focus();
    });
    const said = make("p");
    said.append(make("strong", { textContent: told.get(field) }), ": ", make("mark", { dir: "auto", textContent: words }), " Nothing of the text is sent or saved until they are gone. ", select);
    refuse(field, said);
    const place = said.parentElement.parentElement;
    place.id ||= `${field.id}-refusal`;
    const others = (field.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id !== place.id);
    field.setAttribute("aria-describedby", [...others, place.id].join(" ").trim());
  };

  const refresh = (field, isPaused) => {
    const signs = [...field.value.replace(/\r\n?/g, "\n")];
    const limit = Number(field.dataset.limit);
    const surplus = signs.slice(limit);
    const used = write(signs.length);
    const output = document.querySelector(`[data-counts="${field.id}"]`);
    if (output) {
      output.textContent = `${used}/${write(limit)}`;
      output.classList.toggle("is-full", signs.length >= limit);
    }
    const said = surplus.length ? `${write(surplus.length)} ${surplus.length > 1 ? "characters" : "character"} too many` : "";
    field.setCustomValidity(said);
    field.ariaInvalid = said ? "true" : null;
    const before = told.get(field) ?? "";
    if (said ? said !== before && (isPaused || !before) : before) {
      told.set(field, said);
      if (said) tell(field, surplus, signs.slice(0, limit).join("").length);
      else refuse(field, "");
    }
    if (isPaused && !said) document.getElementById("said").textContent = signs.length < NEAR * limit ? "" : `${used} of ${write(limit)} characters`;
  };

  document.addEventListener("input", ({ target }) => {
    if (!isCapped(target)) return;
    refresh(target);
    clearTimeout(pause);
    pause = setTimeout(refresh, PAUSE, target, true);
  });
  for (const field of document.querySelectorAll("[data-limit]")) if (isCapped(field)) refresh(field);
})();
