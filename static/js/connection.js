// After a lost connection, the first answer to a poll brings the whole play area, with a new stream:
// the browser does not notice by itself that the stream before is dead.
(() => {
  let isLost = false;
  const isPoll = (detail) => detail.elt.id === "play-poll";

  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, ({ detail }) => {
      isLost = isLost || isPoll(detail);
    });
  }
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (isLost && isPoll(detail)) detail.path = detail.path.replace(/seen=[^&]*/, "seen=");
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.successful && isPoll(detail)) isLost = false;
  });
})();
