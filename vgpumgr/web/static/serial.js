// A VM's serial line: what it says as text in its colours, and keys as bytes.

import {SerialScreen} from "./serial_screen.js";
import {endOf, keepConnected, leftByKeys} from "./console_ticket.js";

const place = document.getElementById("serial");
const NAMED = {
  Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~",
  ArrowUp: "\x1b[A", ArrowDown: "\x1b[B", ArrowRight: "\x1b[C", ArrowLeft: "\x1b[D",
  Home: "\x1b[H", End: "\x1b[F", PageUp: "\x1b[5~", PageDown: "\x1b[6~",
};
const encoder = new TextEncoder();
let socket = null;
const screen = new SerialScreen(place);

function send(text) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(encoder.encode(text));
}

function bytesOf(event) {
  if (event.altKey || event.metaKey) return "";
  if (event.ctrlKey) {
    const code = event.key.length === 1 ? event.key.toUpperCase().charCodeAt(0) : 0;
    return code >= 0x40 && code < 0x60 ? String.fromCharCode(code - 0x40) : "";
  }
  return NAMED[event.key] ?? (event.key.length === 1 ? event.key : "");
}

place.addEventListener("keydown", (event) => {
  const text = bytesOf(event);
  if (!text) return;
  event.preventDefault();
  send(text);
});
place.addEventListener("paste", (event) => {
  event.preventDefault();
  send(event.clipboardData.getData("text").replaceAll("\n", "\r"));
});

function connect(ticket, connected) {
  return new Promise((ended) => {
    const decoder = new TextDecoder();
    socket = new WebSocket(ticket.url, ticket.protocols);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => { place.dataset.connected = "true"; connected(); place.focus(); });
    socket.addEventListener("message", (event) => screen.show(decoder.decode(event.data, {stream: true})));
    socket.addEventListener("close", (event) => {
      delete place.dataset.connected;
      ended(endOf(event));
    });
  });
}

leftByKeys(place);
keepConnected(place, connect);
