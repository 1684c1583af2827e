"""Fencing: a host is off by the program of its ``fence:`` block or by an operator's word."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from vgpumgr.model.errors import NotPermitted, VgpumgrError
from vgpumgr.model.host import Fence, HostRecord, Proof, says_off
from vgpumgr.model.ports import Clock
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import SecretPaths

MOST_BYTES = 64 << 10
_PIECE = 4096


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended. ``code`` None: it did not end by itself, and ``why`` says more."""

    code: int | None
    out: str = ""
    why: str = ""


def run_program(argv: Sequence[str], limit_s: float) -> ProgramResult:
    """Run it to its end, or kill it with all it started: too slow, or too much said."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, ValueError) as error:
        return ProgramResult(None, why=f"{argv[0]}: {getattr(error, 'strerror', None) or error}")
    with process:
        return _until_end(process, time.monotonic() + limit_s, limit_s)


def _until_end(process: subprocess.Popen[bytes], deadline: float, limit_s: float) -> ProgramResult:
    assert process.stdout is not None and process.stderr is not None
    said = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    why = _read(said, deadline)
    if not why:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            why = "late"
    if why:
        with suppress(ProcessLookupError):  # it is not waited for yet: the group is its own
            os.killpg(process.pid, signal.SIGKILL)
        return ProgramResult(None, why="it printed too much" if why == "long" else _late(limit_s))
    out, error = (bytes(each).decode(errors="replace") for each in said.values())
    return ProgramResult(process.returncode, out=out, why=_last_line(error))


def _read(said: dict[int, bytearray], deadline: float) -> str:
    """Fill the buffers until both ends are closed; ``late`` or ``long`` where that fails."""
    with selectors.DefaultSelector() as selector:
        for descriptor in said:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return "late"
            for key, _ in selector.select(left):
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fd)
                said[key.fd] += piece
                if len(said[key.fd]) > MOST_BYTES:
                    return "long"
    return ""


def _late(limit_s: float) -> str:
    return f"it did not end within {limit_s:g} s"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else ""


Run = Callable[[Sequence[str], float], ProgramResult]

# A BMC answers within seconds; a machine that is told to power off takes some more.
OFF_S = 60.0
STATUS_S = 20.0
UNTIL_OFF_S = 120.0
POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Fences:
    """``ports.Fencing``. What was confirmed holds for this process alone. Programs get the path of
    their secret, which is looked for at each run; never its value.
    """

    clock: Clock
    run: Run = run_program
    secrets: SecretPaths | None = None
    _confirmed: dict[str, Proof] = field(default_factory=dict, init=False)

    def confirm(self, host: str, by: str) -> None:
        """Note that an operator, who typed the host's name, says that it is off and stays off."""
        self._confirmed[host] = Proof(host=host, how=f"{by} confirms it (--confirm-off)")

    @contextmanager
    def vouched(self, host: str, by: str) -> Iterator[None]:
        """The same for as long as the block works."""
        self.confirm(host, by)
        try:
            yield
        finally:
            self._confirmed.pop(host, None)

    def status(self, fence: Fence) -> ProgramResult:
        """What ``status`` says now."""
        return self._run(fence, fence.status, STATUS_S)

    def _run(self, fence: Fence, argv: Sequence[str], limit_s: float) -> ProgramResult:
        """A program of the fence; without its secret it says nothing."""
        if not fence.secret or self.secrets is None:
            return self.run(argv, limit_s)
        try:
            path = self.secrets.path(EVERY_TENANT, fence.secret)
        except VgpumgrError as error:
            return ProgramResult(None, why=f"{error.message}: {error.why or error.next}")
        return self.run(fence.needing(argv, str(path)), limit_s)

    def proof(self, host: HostRecord) -> Proof | None:
        """The operator's word, or ``off`` from the fence's ``status``; None without either."""
        if host.name in self._confirmed:
            return self._confirmed[host.name]
        if host.fence is None:
            return None
        ran = self.status(host.fence)
        return _proof(host.name, ran) if says_off(ran.code, ran.out) else None

    def switch_off(self, host: HostRecord) -> Proof:
        """Run ``off``, and ask until ``status`` says off; NotPermitted when it does not in time.

        How ``off`` itself ends proves nothing: some end well too early, some fail on a host that
        is off.
        """
        if host.name in self._confirmed:
            return self._confirmed[host.name]
        if host.fence is None:
            raise _unproven(host.name)
        off = self._run(host.fence, host.fence.off, OFF_S)
        deadline = self.clock.monotonic() + UNTIL_OFF_S
        while not says_off((ran := self.status(host.fence)).code, ran.out):
            if self.clock.monotonic() >= deadline:
                raise _still_on(host.name, off, ran)
            self.clock.wait(POLL_S)
        return _proof(host.name, ran)


def _proof(host: str, ran: ProgramResult) -> Proof:
    return Proof(host=host, how=f"its fence status says {words(ran)}")


def words(ran: ProgramResult) -> str:
    """What a program said, in one line: all of it, for all of it counts."""
    out = ran.out.strip()
    said = repr(out[:200]) if out else "nothing"
    if ran.code is None:
        return f"nothing: {ran.why}"
    return said if ran.code == 0 else f"{said} (exit {ran.code}{f', {ran.why}' if ran.why else ''})"


def _unproven(host: str) -> NotPermitted:
    return NotPermitted(
        f"{host} is not proven to be off",
        why="it has no fence block; a VM that is still running there would run twice",
        next=f"vgpumgr host fence {host} --off '[…]' --status '[…]', or switch it off by hand "
        f"and: vgpumgr host evacuate {host} --confirm-off",
    )


def _still_on(host: str, off: ProgramResult, status: ProgramResult) -> NotPermitted:
    return NotPermitted(
        f"{host} is not proven to be off",
        why=f"status says {words(status)}; off said {words(off)}",
        next=f"vgpumgr host fence {host} --check; or switch it off by hand and: "
        f"vgpumgr host evacuate {host} --confirm-off",
    )
