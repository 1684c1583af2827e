"""A helper call that leaves a byte stream open: a VM's console, after one line of JSON each way."""

from __future__ import annotations

import json
from dataclasses import dataclass

from vgpumgr.hosts.deadlines import DEADLINES
from vgpumgr.hosts.helper.helper_call import Identity, result_of
from vgpumgr.hosts.helper.helper_launch import HelperLaunch
from vgpumgr.hosts.program_runner import (
    MAX_ERROR_BYTES,
    CompletedProgram,
    JoinedProgram,
    StartProgram,
)
from vgpumgr.model.console_ticket import ConsoleKind
from vgpumgr.model.errors import (
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    NotPermitted,
    VgpumgrError,
)
from vgpumgr.model.ports import Stream

_PIECE = 4096


@dataclass(frozen=True, slots=True)
class HelperConsole:
    """``console`` of one host. ``timeout_s`` is the deadline of the answer alone."""

    host: str
    start: StartProgram
    launch: HelperLaunch
    timeout_s: float
    identity: Identity

    def __call__(self, domain: str, vm_id: str, kind: ConsoleKind = ConsoleKind.SCREEN) -> Stream:
        """See ``ports.Host.console``."""
        if not self.launch.may_change:
            raise NotPermitted(
                f"{self.host} is probe-only: it offers no consoles",
                why="it was enrolled without installing the helper",
                next=f"vgpumgr host remove {self.host}, then host add without --no-install",
            )
        args = {"domain": domain, "vm": vm_id}
        if kind is not ConsoleKind.SCREEN:  # a helper from before knows no other
            args["kind"] = kind.value
        request = {
            "verb": "console",
            "args": args,
            "fleet": self.identity()[0],
        }
        program = self.start(self.launch.argv)
        try:
            line, rest = self._asked(program, json.dumps(request).encode() + b"\n")
            self._accepted(domain, kind, line, program)
        except BaseException:
            program.close()
            raise
        return _Joined(program, rest)

    def _asked(self, program: JoinedProgram, request: bytes) -> tuple[bytes, bytes]:
        """The answer's line, and what came behind it."""
        got = b""
        with DEADLINES.within(self.timeout_s, program.close) as deadline:
            try:
                program.sendall(request)
                while b"\n" not in got and len(got) < MAX_ERROR_BYTES:
                    piece = program.recv(_PIECE)
                    if not piece:
                        break
                    got += piece
            except OSError as error:
                if not deadline.fired:
                    raise self._lost(HostUnreachable, str(error)) from error
        if deadline.fired:
            raise self._lost(DeadlineExceeded, f"no answer within {self.timeout_s:g} s")
        line, _, rest = got.partition(b"\n")
        return line, rest

    def _lost(self, kind: type[VgpumgrError], why: str) -> VgpumgrError:
        """A helper that does not know the verb waits for more of the request."""
        return kind(
            f"the helper on {self.host} gave no connection to the console",
            why=why,
            next=f"vgpumgr host upgrade {self.host}   (if it is older than this vgpumgr)",
        )

    def _accepted(
        self, domain: str, kind: ConsoleKind, line: bytes, program: JoinedProgram
    ) -> None:
        """What the helper refused is raised."""
        said = "" if line else program.complaint()
        try:
            result_of(self.host, CompletedProgram(0 if line else 1, line, said), self.launch)
        except HostRefused as refusal:
            refusal.next = refusal.next or self._advice(domain, kind, refusal.message)
            raise

    def _advice(self, domain: str, kind: ConsoleKind, refused: str) -> str:
        if kind is ConsoleKind.SCREEN:
            screen = "display: true or console: true in its file adds a screen"
            return f"vgpumgr vm show {domain}; {screen}"
        if "'kind'" in refused:  # a helper from before serial consoles
            return f"vgpumgr host upgrade {self.host}"
        return f"vgpumgr vm show {domain}"


class _Joined:
    """The connection behind the answer."""

    def __init__(self, program: JoinedProgram, first: bytes) -> None:
        self._program = program
        self._first = first

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        if self._first:
            piece, self._first = self._first[:size], self._first[size:]
            return piece
        return self._program.recv(size)

    def sendall(self, data: bytes) -> None:
        """All bytes."""
        self._program.sendall(data)

    def close(self) -> None:
        """End the program with its connection."""
        self._program.close()
