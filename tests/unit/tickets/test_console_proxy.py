"""A door on the loopback: one viewer, with the password, once."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.e2e.support import until
from tests.vncviewer import Viewer
from vgpumgr.app.console_proxy import TRIES, LoopbackProxies, LoopbackProxy
from vgpumgr.app.ticket_password import PasswordHalf
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable, UsageError
from vgpumgr.model.ports import ConsoleProxy
from vgpumgr.sim import joined_helper
from vgpumgr.sim.libvirt import vnc_consoles


class Scene:
    """A door to a simulated VNC server."""

    def __init__(self) -> None:
        mine, (near, self.far) = PasswordHalf(), socket.socketpair()
        vnc_consoles.serve_vnc(self.far, "desk")
        self.door: ConsoleProxy = LoopbackProxies(10.0).open(
            joined_helper.SocketProgram(near), mine.public
        )
        self.password = mine.password(self.door.answer)

    def ended(self) -> str:
        until(lambda: self.door.look().ended != "", "the door is closed")
        return self.door.look().ended


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.door.close()


def test_the_viewer_sees_the_screen_and_its_keys_arrive(scene: Scene) -> None:
    with Viewer(scene.door.address) as viewer:
        assert viewer.log_in(scene.password) == ""
        assert viewer.screen().name == "desk (simulated)"
        before = viewer.picture(640, 1)
        viewer.socket.sendall(b"\4\1\0\0\0\0\0a")
        assert viewer.picture(640, 1) != before
        seen = scene.door.look()
        assert seen.connected and seen.sent > 0 and seen.ended == ""
    assert scene.ended() == "the viewer disconnected"


def test_a_second_viewer_is_refused(scene: Scene) -> None:
    with Viewer(scene.door.address) as waiting, Viewer(scene.door.address) as viewer:
        assert viewer.log_in(scene.password) == ""
        assert waiting.read(12) and waiting.ended(), "who was at the door is sent away"
        with Viewer(scene.door.address) as late:
            assert late.ended(), "and so is who comes later"
        assert viewer.screen().name


def test_a_wrong_password_leaves_the_door_to_who_knows_it(scene: Scene) -> None:
    with Viewer(scene.door.address) as thief:
        assert thief.log_in("password") == "wrong password"
        assert thief.ended()
    with Viewer(scene.door.address) as viewer:
        assert viewer.log_in(scene.password) == ""


def test_it_cannot_be_guessed(scene: Scene) -> None:
    for _ in range(TRIES):
        with Viewer(scene.door.address) as thief:
            thief.log_in("password")
    assert "none of them with the password" in scene.ended()
    with pytest.raises(ConnectionRefusedError):
        Viewer(scene.door.address)


def test_closing_parts_who_is_joined(scene: Scene) -> None:
    with Viewer(scene.door.address) as viewer:
        viewer.log_in(scene.password)
        viewer.screen()
        scene.door.close()
        assert viewer.ended()
    with pytest.raises(ConnectionRefusedError):
        Viewer(scene.door.address)


def test_a_viewer_who_is_parted_while_it_comes_in_ends_like_any_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread of the door fails: pytest tells."""
    let_in, join, joined = LoopbackProxy._let_in, LoopbackProxy._join, threading.Event()

    def parted(door: LoopbackProxy, viewer: socket.socket) -> bool:
        found = let_in(door, viewer)
        door.close()
        return found

    def noted(door: LoopbackProxy, viewer: socket.socket) -> None:
        try:
            join(door, viewer)
        finally:
            joined.set()

    monkeypatch.setattr(LoopbackProxy, "_let_in", parted)
    monkeypatch.setattr(LoopbackProxy, "_join", noted)
    with Viewer(scene.door.address) as viewer, contextlib.suppress(OSError):
        viewer.log_in(scene.password)
    assert joined.wait(60)
    assert scene.ended() == "it was closed"


def test_the_end_of_the_console_is_seen_before_anybody_comes(scene: Scene) -> None:
    scene.far.shutdown(socket.SHUT_RDWR)
    assert scene.ended() == "the console has ended"


def test_a_console_that_says_nothing_is_not_waited_for() -> None:
    near, far = socket.socketpair()
    with far, pytest.raises(DeadlineExceeded):
        LoopbackProxies(0.05).open(joined_helper.SocketProgram(near), PasswordHalf().public)


def test_a_console_that_is_gone_opens_no_door() -> None:
    near, far = socket.socketpair()
    far.close()
    with pytest.raises(HostUnreachable):
        LoopbackProxies(10.0).open(joined_helper.SocketProgram(near), PasswordHalf().public)


def test_nobody_else_can_be_served_than_the_holder_of_a_key() -> None:
    near, far = socket.socketpair()
    with far, near, pytest.raises(UsageError):
        LoopbackProxies(10.0).open(joined_helper.SocketProgram(near), "no key")
