"""Messages to users of desktops, which the agent in the guest shows.

A message is best effort: what could not be told is said, and nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from vgpumgr.engine.desktops.session_ends import EndReason, SessionEnd
from vgpumgr.engine.migration.users_at_work import logged_in
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.errors import LedgerError, VgpumgrError
from vgpumgr.model.formats import counted
from vgpumgr.model.guest import GuestCommand
from vgpumgr.model.vm import VmRecord

_TIMEOUT_S = 5.0
TellKey = tuple[str, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldUser:
    """A user who was told, or could not be: ``why`` says the reason."""

    desktop: str
    user: str
    minutes: int
    host: str = ""
    reason: EndReason = EndReason.TAKEN
    why: str = ""

    @property
    def text(self) -> str:
        """What is said of it in the log of `serve`."""
        ends = "is disconnected" if self.reason is EndReason.IDLE else "ends"
        said = f"{self.user} on {self.desktop}: the session {ends} in {self.minutes} min"
        return f"{said}, and could not be told: {self.why}" if self.why else f"{said}, and was told"


def message(system: str, minutes: int, reason: EndReason = EndReason.TAKEN) -> tuple[str, ...]:
    """The program that shows it: ``msg`` to every session of a Windows guest, ``wall`` elsewhere,
    which reaches terminals and what a desktop makes of it.
    """
    unit = "minute" if minutes == 1 else "minutes"
    text = _TEXTS[reason].format(f"{minutes} {unit}")
    if system.startswith("windows"):
        return ("msg.exe", "*", f"/TIME:{max(1, minutes) * 60}", text)
    return ("wall", text)


_TEXTS = {
    EndReason.TAKEN: "This desktop is taken away in {}. Please save your work and log off.",
    EndReason.IDLE: "This session was not used for a while and is disconnected in {}.",
    EndReason.NOW: "This desktop is stopped now, by its operator.",
    EndReason.ENDED: "This session is ended now, by an operator.",
}


def tell_now(
    context: EngineContext, names: Collection[str], reason: EndReason = EndReason.NOW
) -> tuple[ToldUser, ...]:
    """Tell the users of VMs of these names that they are cut off at once, as an operator has asked:
    users with a session on a desktop, and users whom another guest's agent sees logged in.
    """
    if not names:
        return ()
    rows = [row for row in context.ledger.desktops(list(names)) if row.desktop.session is not None]
    vms = {vm.id: vm for vm in context.ledger.vms() if vm.name in names}
    now = context.clock.now()
    ends = (
        SessionEnd(row=row, user=row.desktop.session.user, at=now, left_s=0.0, reason=reason)
        for row in rows
        if row.desktop.session is not None
    )
    others = sorted(vms.keys() - {row.vm_id for row in rows})
    told = tell_each(context, ends, vms, set())
    return (*told, *_tell_logged_in(context, [vms[each] for each in others], reason))


def _tell_logged_in(
    context: EngineContext, vms: Collection[VmRecord], reason: EndReason
) -> Iterator[ToldUser]:
    """Of VMs that are no desktops, without the users' names: a guest tells how many there are."""
    users = logged_in(context, [vm for vm in vms if vm.spec.agent])
    for vm in vms:
        if vm.name in users and not context.stop.is_set():
            why = _tell(context, vm, 1, reason)
            user = counted(users[vm.name], "user")
            yield ToldUser(
                desktop=vm.name, user=user, host=vm.host, minutes=1, reason=reason, why=why
            )


def tell_each(
    context: EngineContext,
    ends: Iterable[SessionEnd],
    vms: Mapping[str, VmRecord],
    told: set[TellKey],
) -> Iterator[ToldUser]:
    """Tell the users of these sessions, each once; ``told`` grows."""
    for each in ends:
        vm = vms.get(each.row.vm_id)
        if vm is None or each.key in told or context.stop.is_set():
            continue
        told.add(each.key)
        minutes = max(1, round((each.at - context.clock.now()) / 60))
        why = _tell(context, vm, minutes, each.reason)
        yield ToldUser(
            desktop=each.row.name,
            user=each.user,
            host=vm.host,
            minutes=minutes,
            reason=each.reason,
            why=why,
        )


def _tell(context: EngineContext, vm: VmRecord, minutes: int, reason: EndReason) -> str:
    """Why it could not be told; empty: the guest has shown it."""
    if not vm.spec.agent:
        return "its file does not say agent: true"
    command = GuestCommand(run=message(vm.spec.os, minutes, reason), timeout_s=_TIMEOUT_S)
    try:
        answer = context.host(vm.host).domains.run_in_guest(vm.domain_uuid, command)
    except LedgerError:
        raise
    except VgpumgrError as error:
        return error.why or error.message
    if answer is None:
        return "its agent does not answer"
    return "" if answer.status == 0 else f"{command.run[0]} ended with {answer.status}"
