// Counts and caps in code points, a line break as one, as the program counts them.
// (maxlength counts UTF-16 units, in which an emoji is two.)
(() => {
  const count = (text) => [...text.replace(/\r\n?/g, "\n")].length;
  const write = (number) => number.toLocaleString("en-US");
  const limitOf = (field) => Number(field.dataset.limit);
  const isCapped = (field) => field instanceof Element && field.matches("[data-limit]:not([readonly])");
  // A reader hears the count only after a pause in typing, and only near the limit.
  const NEAR = 0.9;
  const PAUSE = 1000;
  let pause = 0;
  // The last text that fitted, for what cannot be prevented beforehand (input methods).
  const fitting = new WeakMap();

  const refuse = (field, over) => {
    const text = over ? `At most ${write(limitOf(field))} characters are possible here; that is ${write(over)} too many. Nothing was added.` : "";
    field.toggleAttribute("data-was-refused", Boolean(over));
    field.dispatchEvent(new CustomEvent("refused", { bubbles: true, detail: text }));
  };

  const refresh = (field) => {
    const output = document.querySelector(`[data-counts="${field.id}"]`);
    if (!output) return;
    const used = count(field.value);
    output.textContent = `${write(used)}/${write(limitOf(field))}`;
    output.classList.toggle("is-full", used >= limitOf(field));
  };

  const sayLater = (field) => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      const used = count(field.value);
      const isNear = used >= NEAR * limitOf(field);
      document.getElementById("said").textContent = isNear ? `${write(used)} of ${write(limitOf(field))} characters` : "";
    }, PAUSE);
  };

  const insertedBy = (event) => {
    if (!event.inputType.startsWith("insert")) return "";
    if (/LineBreak|Paragraph/.test(event.inputType)) return "\n";
    return event.data ?? event.dataTransfer?.getData("text/plain") ?? "";
  };

  document.addEventListener("beforeinput", (event) => {
    const field = event.target;
    if (!isCapped(field) || event.isComposing) return;
    const inserted = insertedBy(event);
    if (!inserted) return;
    const replaced = field.value.slice(field.selectionStart, field.selectionEnd);
    const over = count(field.value) - count(replaced) + count(inserted) - limitOf(field);
    if (over <= 0) return;
    event.preventDefault();
    refuse(field, over);
  });

  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!isCapped(field)) return;
    const over = count(field.value) - limitOf(field);
    if (over > 0 && !event.isComposing && fitting.has(field)) {
      field.value = fitting.get(field);
      refuse(field, over);
    } else if (over <= 0) {
      fitting.set(field, field.value);
      if (field.hasAttribute("data-was-refused")) refuse(field, 0);
    }
    refresh(field);
    sayLater(field);
  });

  for (const field of document.querySelectorAll("[data-limit]")) {
    if (count(field.value) <= limitOf(field)) fitting.set(field, field.value);
    refresh(field);
  }
})();
