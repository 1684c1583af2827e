// A VM's screen: noVNC over a console's websocket.

import RFB from "./vendor/novnc/core/rfb.js";
import {endOf, keepConnected, leftByKeys} from "./console_ticket.js";

const place = document.getElementById("screen");
const keys = document.getElementById("console-keys");
const full = document.getElementById("console-full");
let screen = null;

keys.addEventListener("click", () => { screen?.sendCtrlAltDel(); screen?.focus(); });
full.addEventListener("click", () => place.requestFullscreen?.());

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
