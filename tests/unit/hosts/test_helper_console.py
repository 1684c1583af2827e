"""A helper that stays joined, as its caller meets it; and programs of this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence

import pytest

from vgpumgr.hosts.helper.helper_console import HelperConsole
from vgpumgr.hosts.helper.helper_launch import installed, streamed
from vgpumgr.hosts.program_runner import start_local
from vgpumgr.model.console_ticket import ConsoleKind
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    NotPermitted,
)

OK = b'{"ok": true, "result": {}}\n'


class Told:
    """Says these pieces, then nothing more: it ends, or waits until it is closed."""

    def __init__(self, *pieces: bytes, complains: str = "", waits: bool = False) -> None:
        self.pieces = list(pieces)
        self.complains = complains
        self.waits = waits
        self.heard = b""
        self.closed = threading.Event()

    def recv(self, size: int) -> bytes:
        if self.pieces:
            return self.pieces.pop(0)
        if self.waits:
            self.closed.wait(20)
            raise OSError("closed")
        return b""

    def sendall(self, data: bytes) -> None:
        self.heard += data

    def complaint(self) -> str:
        return self.complains

    def close(self) -> None:
        self.closed.set()


def console(program: Told, user: str = "gpuadm", timeout_s: float = 20.0) -> HelperConsole:
    def start(argv: Sequence[str]) -> Told:
        assert argv[-1].endswith("vgpumgr-helper")
        return program

    return HelperConsole(
        "h1", start, installed(user), timeout_s=timeout_s, identity=lambda: ("fleet-1", 7)
    )


def refusal(code: str, message: str) -> bytes:
    error = {"code": code, "message": message, "why": "a reason", "errno": None}
    return json.dumps({"ok": False, "error": error}).encode() + b"\n"


def test_what_comes_with_the_answer_is_the_connections() -> None:
    program = Told(OK[:5], OK[5:] + b"RFB 003.", b"008\n")
    stream = console(program)("desk", "vm-1")
    assert [stream.recv(4), stream.recv(99), stream.recv(99)] == [b"RFB ", b"003.", b"008\n"]
    stream.sendall(b"keys")
    request, _, rest = program.heard.partition(b"\n")
    assert json.loads(request) == {
        "verb": "console",
        "args": {"domain": "desk", "vm": "vm-1"},
        "fleet": "fleet-1",
    }
    assert rest == b"keys" and not program.closed.is_set()
    stream.close()
    assert program.closed.is_set()


@pytest.mark.parametrize(
    ("program", "error", "words"),
    [
        (Told(refusal("refused", "desk does not run")), HostRefused, "desk does not run"),
        (Told(refusal("claim-mismatch", "desk is not ours")), Conflict, "not ours"),
        (Told(complains="sudo: a password is required"), NotPermitted, "no sudo rule"),
        (Told(complains="command not found"), HostUnreachable, "cannot be started"),
    ],
)
def test_what_the_helper_refuses_is_raised(
    program: Told, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        console(program)("desk", "vm-1")
    assert program.closed.is_set()


def test_an_older_helper_says_nothing_and_is_not_waited_for() -> None:
    program = Told(waits=True)
    with pytest.raises(DeadlineExceeded) as caught:
        console(program, timeout_s=0.05)("desk", "vm-1")
    assert "vgpumgr host upgrade h1" in caught.value.next
    assert program.closed.is_set()


def test_the_kind_is_told_to_helpers_that_know_it() -> None:
    program = Told(OK)
    console(program)("desk", "vm-1", ConsoleKind.SERIAL)
    assert json.loads(program.heard)["args"] == {"domain": "desk", "vm": "vm-1", "kind": "serial"}
    older = "argument 'kind' is not one this verb takes (domain, vm)"
    for said, next_ in (
        (refusal("bad-argument", older), "vgpumgr host upgrade h1"),
        (refusal("refused", "desk has no serial console"), "vgpumgr vm show desk"),
    ):
        with pytest.raises(HostRefused) as caught:
            console(Told(said))("desk", "vm-1", ConsoleKind.SERIAL)
        assert caught.value.next == next_


def test_a_host_that_is_only_probed_has_no_consoles() -> None:
    program = Told(OK)
    only = HelperConsole(
        "h1", lambda _: program, streamed(), timeout_s=1.0, identity=lambda: ("f", 1)
    )
    with pytest.raises(NotPermitted, match="probe-only"):
        only("desk", "vm-1")
    assert program.heard == b""


def test_a_program_of_this_machine() -> None:
    program = start_local([], ["cat"])
    program.sendall(b"there and back")
    assert program.recv(99) == b"there and back"
    program.close()
    program.close()
    with pytest.raises(HostUnreachable):
        start_local([], ["/nonexistent/program"])
