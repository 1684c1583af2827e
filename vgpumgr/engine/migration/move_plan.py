"""The plan of a move: its parts, its checks, and its refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict, VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import VmRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCheck:
    """One thing that has to hold. ``refused`` makes the error when it does not (None: it does)."""

    name: str
    text: str
    refused: Callable[..., VgpumgrError] | None = None
    next: str = ""

    @property
    def holds(self) -> bool:
        """Does it?"""
        return self.refused is None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskMove:
    """The move of one disk: it stays on a shared pool, or ``plan`` is made on the target.

    ``guest_name`` is the guest's name for it (``vda``), the paths are those of the file on both
    hosts.
    """

    guest_name: str
    pool: str
    name: str
    size_bytes: int
    path: str
    target_path: str
    cdrom: bool
    plan: VolumePlan | None = None

    @property
    def shared(self) -> bool:
        """Do both hosts see it?"""
        return self.plan is None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """A VM, the hosts, and how: ``live``, or cold, where it is started again if it ``runs`` now.

    ``xml`` is the definition on the source. ``placed`` is None when the target has no room.
    """

    vm: VmRecord
    source: HostRecord
    target: HostRecord
    live: bool
    runs: bool
    xml: str
    placed: Placed | None
    disks: tuple[DiskMove, ...]
    checks: tuple[MoveCheck, ...]
    timeout_s: float | None = None


def passed_check(name: str, text: str) -> MoveCheck:
    """A check that holds."""
    return MoveCheck(name=name, text=text)


def failed_check(
    name: str, text: str, next: str = "", kind: Callable[..., VgpumgrError] = Conflict
) -> MoveCheck:
    """A check that does not hold."""
    return MoveCheck(name=name, text=text, refused=kind, next=next)


def refuse_nowhere(vm: VmRecord, target: HostRecord) -> None:
    """Conflict when it is there already."""
    if vm.host == target.name:
        raise Conflict(f"{vm.name} is on {target.name} already", next=f"vgpumgr vm show {vm.name}")


def refuse(plan: MovePlan) -> None:
    """Raise what the first check that does not hold leads to; the others are among the causes."""
    failed = [check for check in plan.checks if check.refused is not None]
    if failed:
        first = failed[0]
        assert first.refused is not None
        raise first.refused(
            f"{plan.vm.name} cannot be moved to {plan.target.name}",
            why="; ".join(_lines(failed)),
            next=first.next
            or f"vgpumgr vm migrate {plan.vm.name} --to {plan.target.name} --dry-run",
        )


def _lines(checks: Sequence[MoveCheck]) -> list[str]:
    return [f"{check.name}: {check.text}" for check in checks]
