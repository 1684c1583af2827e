"""What the page of a screen says to a QEMU at its far end."""

from __future__ import annotations

import struct

import pytest
from playwright.sync_api import WebSocketRoute, expect

from tests.web.visitor import Visitor

pytestmark = pytest.mark.thorough

SIZE = 64
FORMAT = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
EXTENDED_KEYS = -258
RELEASE = struct.pack(">BBHII", 255, 0, 0, 0, 0x6F)
"""Of F24, by its place on the keyboard."""
PRESS = struct.pack(">BBHI", 255, 0, 1, ord("a"))

FRAMES = 600
OWN = """
  const Routed = WebSocket;
  window.WebSocket = class extends Routed {};
  const own = WebSocket.prototype;
  for (let from = Routed.prototype; from; from = Object.getPrototypeOf(from)) {
    for (const [name, what] of Object.entries(Object.getOwnPropertyDescriptors(from))) {
      if (Object.hasOwn(own, name)) continue;
      Object.defineProperty(own, name, what);
    }
  }
"""
"""noVNC looks for what a socket has in its class alone, and a routed one has it from another."""


class Qemu:
    """A VNC server that takes keys by their places, as QEMU's does."""

    def __init__(self, route: WebSocketRoute) -> None:
        self.said: list[bytes] = []
        self._route = route
        self._answers = iter(
            (
                b"\1\1",  # no password
                b"\0\0\0\0",
                struct.pack(">HH", SIZE, SIZE) + FORMAT + struct.pack(">I", 4) + b"desk",
                struct.pack(">BxHHHHHi", 0, 1, 0, 0, 0, 0, EXTENDED_KEYS),
            )
        )
        route.on_message(self._hear)
        route.send(b"RFB 003.008\n")

    def _hear(self, message: str | bytes) -> None:
        assert isinstance(message, bytes)
        self.said.append(message)
        if answer := next(self._answers, None):
            self._route.send(answer)


def test_the_screen_is_looked_at_again_after_a_key(operator: Visitor) -> None:
    page, there = operator.page, []
    page.route_web_socket("**/v1/consoles", lambda route: there.append(Qemu(route)))
    page.add_init_script(OWN)
    operator.go("/vms/desk-a/screen")
    expect(page.locator("#console-state")).to_have_text("Connected.")
    (qemu,) = there
    page.locator("#screen canvas").press("a")
    for _ in range(FRAMES):
        if qemu.said.count(RELEASE) == 3:
            break
        page.evaluate("new Promise(requestAnimationFrame)")
    heard = b"".join(qemu.said)
    assert heard.count(RELEASE) == 3
    assert heard.index(PRESS) < heard.index(RELEASE)
