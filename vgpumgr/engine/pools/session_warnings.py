"""Users are told before their session ends: by a message in the guest, which its agent shows.

A session ends by itself where its host is drained with a deadline. The message is best effort: what
could not be told is said, and nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.errors import LedgerError, VgpumgrError
from vgpumgr.model.guest import GuestCommand
from vgpumgr.model.vm import VmRecord

BEFORE_S = (600.0, 120.0)
"""How long before its end a user is told, each time once."""
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """A session that ends at ``at`` (Unix seconds) on a desktop; ``left_s`` is the time for which
    its user is told, one of BEFORE_S.
    """

    row: DesktopRecord
    user: str
    at: float
    left_s: float

    @property
    def key(self) -> tuple[str, float, float, float]:
        """It is told once."""
        session = self.row.desktop.session
        return self.row.vm_id, session.since if session else 0.0, self.at, self.left_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldUser:
    """A user who was told, or could not be: ``why`` says the reason."""

    desktop: str
    user: str
    minutes: int
    why: str = ""


def ending(rows: Iterable[DesktopRecord], at: float, now: float) -> Iterator[SessionEnd]:
    """The sessions that end at ``at``, where it is time to tell their users; pure."""
    left = [each for each in BEFORE_S if at - now <= each]
    if not left or now >= at:
        return
    for row in rows:
        session = row.desktop.session
        if session is not None and row.vm_id and session.disconnected is None:
            yield SessionEnd(row=row, user=session.user, at=at, left_s=left[-1])


def message(system: str, minutes: int) -> tuple[str, ...]:
    """The program that shows it: ``msg`` to every session of a Windows guest, ``wall`` elsewhere,
    which reaches terminals and what a desktop makes of it.
    """
    unit = "minute" if minutes == 1 else "minutes"
    text = f"This desktop is taken away in {minutes} {unit}. Please save your work and log off."
    if system.startswith("windows"):
        return ("msg.exe", "*", f"/TIME:{minutes * 60}", text)
    return ("wall", text)


def tell_users(
    context: EngineContext, host: str, deadline: float, told: set[tuple[str, float, float, float]]
) -> Iterator[ToldUser]:
    """Tell the users of a host's desktops that it is drained at ``deadline``; ``told`` are those
    that were told before, and grows.
    """
    now = context.clock.now()
    if not 0 < deadline - now <= max(BEFORE_S):
        return
    vms = {vm.id: vm for vm in context.ledger.vms(host)}
    names = [vm.name for vm in vms.values()]
    rows = (row for row in context.ledger.desktops(names) if row.vm_id in vms) if names else ()
    for each in ending(rows, deadline, now):
        if each.key in told or context.stop.is_set():
            continue
        told.add(each.key)
        minutes = max(1, round((each.at - now) / 60))
        why = _tell(context, vms[each.row.vm_id], minutes)
        yield ToldUser(desktop=each.row.name, user=each.user, minutes=minutes, why=why)


def _tell(context: EngineContext, vm: VmRecord, minutes: int) -> str:
    """Why it could not be told; empty: the guest has shown it."""
    if not vm.spec.agent:
        return "its file does not say agent: true"
    command = GuestCommand(run=message(vm.spec.os, minutes), timeout_s=_TIMEOUT_S)
    try:
        answer = context.host(vm.host).domains.run_in_guest(vm.domain_uuid, command)
    except LedgerError:
        raise
    except VgpumgrError as error:
        return error.why or error.message
    if answer is None:
        return "its agent does not answer"
    return "" if answer.status == 0 else f"{command.run[0]} ended with {answer.status}"
