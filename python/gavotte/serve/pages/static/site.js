// Renews what is shown when the server says that it has changed. Without this file, pages show what was when they loaded.
const state = document.getElementById("state");
const keep = { callbacks: { beforeAttributeUpdated: name => name !== "open" }, ignoreActiveValue: true };
let shownMark = null, newest = null, renewing = false;

async function renew() {
  if (renewing) return;
  renewing = true;
  try {
    while (shownMark !== newest) {
      const mark = newest, answer = await fetch(location.href);
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of ["main", "nav"])
        Idiomorph.morph(document.querySelector(part), page.querySelector(part).innerHTML, { morphStyle: "innerHTML", ...keep });
      document.dispatchEvent(new Event("renewed"));
      shownMark = mark;
    }
  } finally {
    renewing = false;
  }
}

const changes = new EventSource("/api/changes");
changes.addEventListener("mark", event => {
  state.textContent = "live";
  newest = event.data;
  if (shownMark === null) shownMark = newest;
  else renew();
});
changes.onerror = () => {
  const over = changes.readyState === EventSource.CLOSED;
  state.textContent = over ? "not live: open the printed address again" : "not live: the server does not answer";
};
