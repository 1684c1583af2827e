"""The consoles of one API process, and the process of its own that joins each to a socket."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from vgpumgr.api.console_worker import MAX_MESSAGE, WantedConsole
from vgpumgr.app.actor import machine
from vgpumgr.model.codec import to_plain
from vgpumgr.model.console_ticket import ticket_lease_name
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostUnreachable,
    VgpumgrError,
    error_from,
)

if TYPE_CHECKING:
    from vgpumgr.app import App

OPEN_S = 40.0
"""How long a console may take until it is joined."""
_END_S = 5.0


class ConsoleProcess:
    """Made in the event loop that it is used in. A process that has ended is started again for the
    next console. ``overrides`` are the settings by which it opens the same fleet.
    """

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self._overrides = overrides
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._last = 0

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._control is not None:
            return
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "vgpumgr.api.console_worker", str(far.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
                start_new_session=True,
            )
        near.settimeout(0)
        near.send(json.dumps(dict(self._overrides)).encode())
        self._control = near
        self._hearing = asyncio.get_running_loop().create_task(self._hear(near))

    async def open(self, wanted: WantedConsole) -> socket.socket:
        """A console as a socket, not blocking; raises why there is none."""
        self.start()
        assert self._control is not None
        self._last += 1
        id_ = self._last
        answered = self._waiting[id_] = asyncio.get_running_loop().create_future()
        near, far = socket.socketpair()
        near.settimeout(0)
        try:
            with far:
                message = json.dumps({"id": id_, **to_plain(wanted)}).encode()
                socket.send_fds(self._control, [message], [far.fileno()])
            async with asyncio.timeout(OPEN_S):
                await answered
        except BaseException as error:
            near.close()
            if isinstance(error, TimeoutError):
                raise DeadlineExceeded(
                    f"{wanted.host} gave no console within {OPEN_S:g} s"
                ) from error
            if isinstance(error, OSError):
                raise _ended() from error
            raise
        finally:
            self._waiting.pop(id_, None)
        return near

    async def _hear(self, control: socket.socket) -> None:
        """Take in what it says until its end."""
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await loop.sock_recv(control, MAX_MESSAGE):
                told = json.loads(data)
                answered = self._waiting.get(told["id"])
                if answered is None or answered.done():
                    continue
                if "error" in told:
                    answered.set_exception(error_from(told["error"]))
                else:
                    answered.set_result(None)
        if self._control is control:
            self._control = None
        control.close()
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(_ended())

    def close(self) -> None:
        """End it, and every connection that it has; called when the loop has ended."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _ended() -> HostUnreachable:
    return HostUnreachable("the process that joins consoles has ended", next="try again")


MOST = 64
"""Consoles of one API process."""
SWEEP_S = 5.0


class OpenConsoles:
    """``name`` is this process in tickets; no other process ever has it."""

    def __init__(self, app: App, overrides: Mapping[str, str]) -> None:
        self._app = app
        self.name = f"{machine()}/api-{uuid.uuid4().hex[:12]}"
        self.process = ConsoleProcess(overrides)
        self._count = 0
        self._ending = threading.Event()

    def start(self) -> None:
        """Make the process ready, and begin to end unused tickets; in the loop."""
        self.process.start()
        threading.Thread(target=self._sweep, name="console-tickets", daemon=True).start()

    def prepare(self) -> None:
        """Before a ticket is used up: Conflict where there are as many consoles as may be."""
        self._require_room()
        self._app.writable_ledger.claim(ticket_lease_name(self.name))

    @contextmanager
    def counted(self) -> Iterator[None]:
        """One more while the block lasts; in the loop. Conflict where there is no room."""
        self._require_room()
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    def _require_room(self) -> None:
        if self._count >= MOST:
            raise Conflict(f"{MOST} consoles are open here", next="try again later")

    def close(self) -> None:
        """End the process."""
        self._ending.set()
        self.process.close()

    def _sweep(self) -> None:
        while not self._ending.wait(SWEEP_S):
            with suppress(VgpumgrError):  # the ledger is away
                self._app.console_tickets.close_left_behind()
