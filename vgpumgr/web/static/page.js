// What every page does by itself: local times, and a word when the server cannot be reached.

const times = new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "medium"});

function localTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    const text = Number.isNaN(at.getTime()) ? "" : times.format(at);
    if (text && each.textContent !== text) each.textContent = text;
  }
}

// A page that slept may have a connection that has died unnoticed: it is renewed when it is seen again,
// and where nothing at all was heard for longer than the server is ever silent.
const SILENT_MS = 40_000;
let heard = Date.now();
const live = document.getElementById("live");
const lost = document.getElementById("connection");

function isLost(yes) {
  if (lost) lost.hidden = !yes;
}

if (live) {
  for (const name of ["htmx:sse:after:connection", "htmx:sse:after:message", "alive"])
    live.addEventListener(name, () => { heard = Date.now(); isLost(false); });
  // What was not shown whole is asked for again, whole.
  live.addEventListener("htmx:sse:error", (event) => {
    if (event.detail?.connection) event.detail.connection.lastEventId = "";
    isLost(true);
  });
  // A page that has not shown the last text that it was sent is read again.
  let shown = new URLSearchParams(live.getAttribute("hx-sse:connect")?.split("?")[1]).get("after");
  live.addEventListener("htmx:sse:after:message", (event) => {
    if (!event.detail?.message?.event) shown = event.detail?.message?.id;
  });
  live.addEventListener("alive", (event) => {
    if (event.detail?.data && event.detail.data !== shown) location.reload();
  });
  live.addEventListener("htmx:sse:close", () => isLost(true));
  setInterval(() => {
    if (!document.hidden && Date.now() - heard > SILENT_MS) {
      heard = Date.now();
      isLost(true);
      location.reload();
    }
  }, 5_000);
}

// What could not be read again is tried until it can be: no page stays as it was before a change.
const AGAIN_MS = 2_000;
let toCome = 0;

function readAgain(event) {
  const status = event.detail?.ctx?.response?.status ?? 0;
  if (!live || event.target === live || (status > 0 && status < 500)) return;
  isLost(true);
  clearTimeout(toCome);
  toCome = setTimeout(() => live.dispatchEvent(new Event("changed")), AGAIN_MS);
}

document.addEventListener("htmx:error", readAgain);
document.addEventListener("htmx:response:error", readAgain);

document.addEventListener("htmx:after:swap", () => { isLost(false); localTimes(document); });
localTimes(document);

// Boxes in a list: one that ticks all.
document.addEventListener("change", (event) => {
  const all = event.target.closest?.("input[data-all]");
  if (!all) return;
  for (const box of all.closest("form, table").querySelectorAll("input[type=checkbox][name=names]"))
    box.checked = all.checked;
});

// A chosen file is read into the text that is sent.
document.addEventListener("change", async (event) => {
  const into = event.target.dataset?.into;
  const file = into && event.target.files[0];
  if (file) document.getElementById(into).value = await file.text();
});
