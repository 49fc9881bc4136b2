// A button that leads to a page of its own sends its form as a browser does, past htmx.
document.addEventListener(
  "submit",
  (event) => {
    if (!event.submitter?.hasAttribute("data-plain")) return;
    event.stopImmediatePropagation();
    // htmx would send the form's next words to the address of the button that was clicked last.
    event.submitter.dispatchEvent(new Event("focusout", { bubbles: true }));
  },
  { capture: true },
);
