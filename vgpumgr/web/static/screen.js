// A VM's screen: noVNC over a console's websocket.

import RFB from "./vendor/novnc/core/rfb.js";
import {endOf, keepConnected, leftByKeys} from "./console_ticket.js";

const place = document.getElementById("screen");
const keys = document.getElementById("console-keys");
const full = document.getElementById("console-full");
let screen = null;

keys.addEventListener("click", () => { screen?.sendCtrlAltDel(); screen?.focus(); });
full.addEventListener("click", () => place.requestFullscreen?.());

// QEMU looks at the screen as soon as an input comes, before the guest has drawn what it does, and then
// not for 80 ms. Each input makes that sooner, 30 ms after the last look: also the release of a key that
// is not held, of which QEMU tells no guest. It is sent by its place on the keyboard, or not at all.
const AGAIN_MS = [12, 42, 72];
let looks = [];
const look = () => screen?.sendKey(0, "F24", false);

function lookAgain() {
  looks.forEach(clearTimeout);
  looks = AGAIN_MS.map((after) => setTimeout(look, after));
}

for (const kind of ["keydown", "mousedown", "mouseup", "wheel"]) {
  place.addEventListener(kind, lookAgain, {capture: true, passive: true});
}

function connect(ticket, connected) {
  return new Promise((ended) => {
    const socket = new WebSocket(ticket.url, ticket.protocols);
    socket.addEventListener("close", (event) => {
      delete place.dataset.connected;
      keys.disabled = full.disabled = true;
      screen = null;
      ended(endOf(event));
    });
    screen = new RFB(place, socket);
    screen.scaleViewport = true;
    screen.addEventListener("connect", () => {
      place.dataset.connected = "true";
      keys.disabled = full.disabled = false;
      connected();
      screen.focus();
    });
  });
}

leftByKeys(place);
keepConnected(place, connect);
