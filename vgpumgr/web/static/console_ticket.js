// A console's connection: a new ticket for each, told in the answer's body, and shown as a subprotocol.

export class Refusal extends Error {
  constructor(problem) {
    super([problem.message, problem.why].filter(Boolean).join(": ") || "It did not work.");
    this.code = problem.code ?? "";
    this.status = problem.status ?? 0;
  }
}

/** Asks for a ticket; {url, protocols}, or {waits} for who is in line. Throws a Refusal. */
export async function askTicket(path, asked) {
  const answer = await fetch(path, {
    method: "POST",
    headers: {"Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID()},
    body: JSON.stringify(asked),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Refusal(told);
  if (!told.protocol) return {waits: told.waits};
  const url = new URL(told.path, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return {url: url.href, protocols: ["binary", told.protocol]};
}

// What the server closes a connection with: the console has ended; its viewer may not look on; none came.
const ENDS = new Set([1000, 4001, 4002]);

/** How a connection ended, of its socket's event: as it should, or cut. */
export function endOf(event) {
  return {clean: ENDS.has(event.code), reason: event.reason};
}

/** Escape twice, then Tab, leaves the element: all other keys may be its own. */
export function leftByKeys(element) {
  let escapes = 0;
  element.addEventListener("keydown", (event) => {
    const leaves = event.key === "Tab" && escapes >= 2;
    if (event.key !== "Shift") escapes = event.key === "Escape" ? escapes + 1 : 0;
    if (leaves) event.stopImmediatePropagation();
  }, {capture: true});
}

const FIRST_MS = 500, LONGEST_MS = 10_000;

/**
 * Keeps a console connected: `connect(ticket)` gives a promise of how its connection ended, as
 * {clean, reason}. One that was cut is made again, with another ticket; one that was ended is not.
 */
export async function keepConnected(element, connect) {
  const state = document.getElementById("console-state");
  const again = document.getElementById("console-again");
  const asked = element.dataset.kind ? {kind: element.dataset.kind} : {};
  let wait = FIRST_MS;
  const clicked = () => new Promise((go) => {
    again.hidden = false;
    again.addEventListener("click", () => { again.hidden = true; go(); }, {once: true});
  });
  for (;;) {
    try {
      const ticket = await askTicket(element.dataset.ask, asked);
      if (ticket.waits !== undefined) {
        state.textContent = `In line: ${ticket.waits}`;
      } else {
        const began = Date.now();
        const end = await connect(ticket, () => { state.textContent = "Connected."; });
        if (Date.now() - began > LONGEST_MS) wait = FIRST_MS;
        if (end.clean) {
          state.textContent = end.reason || "The console has ended.";
          await clicked();
          wait = FIRST_MS;
          continue;
        }
        state.textContent = "The connection was cut; connecting again…";
      }
    } catch (error) {
      if (error instanceof Refusal && error.status !== 0 && error.status < 500 && error.status !== 429) {
        state.textContent = error.message;
        if (error.status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
        await clicked();
        continue;
      }
      state.textContent = `${error.message}; trying again…`;
    }
    await new Promise((go) => setTimeout(go, wait));
    wait = Math.min(2 * wait, LONGEST_MS);
  }
}
