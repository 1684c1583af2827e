"""What a desktop's VM says of it: the row is the intent, the VM is the fact. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from vgpumgr.engine.planning.plan import reached
from vgpumgr.engine.pooling.making import image_of
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.pool import DesktopRecord, DesktopState, Do
from vgpumgr.model.vm import VmRecord, VmState

_STARTS = frozenset({Do.CREATE, Do.START, Do.HEAL, None})
# What is not done any more once the host is lost.
_LOSES = _STARTS | {Do.RECREATE}


@dataclass(frozen=True)
class Seen:
    """A reading of the ledger at ``now``; ``busy`` are the VMs (ids) with unfinished tasks."""

    view: LedgerView
    busy: Collection[str]
    now: float

    @cached_property
    def vms(self) -> dict[str, VmRecord]:
        """VMs that there are, by id."""
        return {vm.id: vm for vm in self.view.vms}

    @cached_property
    def _reached(self) -> tuple[Collection[str], Collection[tuple[str, str]]]:
        found = reached(self.view)
        return found.hosts - found.resting, found.running

    @cached_property
    def lost(self) -> frozenset[str]:
        """Hosts that were proven off, and are not back."""
        return frozenset(host.name for host in self.view.hosts if host.evacuated)

    def answers(self, host: str) -> bool:
        """Did the host answer when it was looked at last?"""
        return host in self._reached[0]

    def runs(self, vm: VmRecord) -> bool:
        """Was its domain running then?"""
        return (vm.host, vm.name) in self._reached[1]


def looked(rows: Iterable[DesktopRecord], seen: Seen) -> list[DesktopRecord]:
    """The rows that are not what their VMs show, as they become."""
    found = ((row, _look(row, seen)) for row in rows)
    return [new for old, new in found if new != old]


def doubted(rows: Iterable[DesktopRecord], seen: Seen) -> frozenset[str]:
    """The hosts to ask once more before a desktop there is said to have failed."""
    return frozenset(
        each.desktop.host
        for each in looked(rows, seen)
        if each.vm_id and each.desktop.state is DesktopState.FAILED
    )


def _look(row: DesktopRecord, seen: Seen) -> DesktopRecord:
    vm = seen.vms.get(row.vm_id)
    if vm is not None and vm.id in seen.busy:
        return _under_way(row, vm, seen)
    if vm is None:
        # Taken back, it may yet be made elsewhere.
        return row if row.vm_id in seen.busy else _without_vm(row, seen.now)
    if vm.host in seen.lost and vm.state is VmState.ACTIVE and row.doing in _LOSES:
        return _at(_as(row, DesktopState.LOST, seen.now, "its host was lost"), vm)
    if row.doing is Do.SHELVE and vm.state is VmState.SHELVED:
        return _as(row, DesktopState.SHELVED, seen.now)
    if row.doing in _STARTS or (row.doing is Do.UPDATE and _has_image(row, vm, seen)):
        return _by_fact(row, vm, seen)
    return _under_way(row, vm, seen)


def _under_way(row: DesktopRecord, vm: VmRecord, seen: Seen) -> DesktopRecord:
    """It is worked on, or to be; of one whose host went away nothing is known until it is back."""
    state = DesktopState.CREATING if seen.answers(vm.host) else DesktopState.UNKNOWN
    both = {DesktopState.CREATING, DesktopState.UNKNOWN}
    if row.doing is None or row.desktop.state not in both - {state}:
        return row
    return replace(row, desktop=replace(row.desktop, state=state, host=vm.host))


def _without_vm(row: DesktopRecord, now: float) -> DesktopRecord:
    if row.doing is Do.CREATE and row.vm_id:
        failed = _as(row, DesktopState.FAILED, now, "it could not be created")
        return replace(failed, vm_id="", desktop=replace(failed.desktop, host=""))
    if row.doing is Do.DELETE or (row.doing is not Do.RECREATE and row.vm_id):
        return replace(row, closed_at=now, doing=None, why=row.why or "its VM is gone")
    return row


def _has_image(row: DesktopRecord, vm: VmRecord, seen: Seen) -> bool:
    """Does its first disk lie over the image that it was to get?"""
    return image_of(vm, seen.view.images) == row.desktop.image


def _by_fact(row: DesktopRecord, vm: VmRecord, seen: Seen) -> DesktopRecord:
    if vm.state is VmState.SHELVED:
        return row if row.doing else _as(row, DesktopState.SHELVED, seen.now)
    if vm.state is not VmState.ACTIVE:
        return row
    if not seen.answers(vm.host):
        return _at(_as(row, DesktopState.UNKNOWN, seen.now, "its host did not answer"), vm)
    if seen.runs(vm):
        return _at(_as(row, DesktopState.READY, seen.now), vm)
    if row.doing is Do.HEAL:
        return row  # it is to be started still
    return _at(_as(row, DesktopState.FAILED, seen.now, "its guest does not run"), vm)


def _at(row: DesktopRecord, vm: VmRecord) -> DesktopRecord:
    return replace(row, desktop=replace(row.desktop, host=vm.host))


def _as(row: DesktopRecord, state: DesktopState, now: float, why: str = "") -> DesktopRecord:
    """What was to be done is done with; a state that it was in before goes on."""
    it = row.desktop
    doing = row.doing if state is DesktopState.UNKNOWN else None
    if it.state is state:
        return replace(row, doing=doing)
    failures = it.failures
    if state is DesktopState.READY:
        failures = 0
    elif state is DesktopState.FAILED:
        failures += 1
    host = "" if state is DesktopState.SHELVED else it.host
    return replace(
        row,
        doing=doing,
        why=why,
        desktop=replace(it, state=state, since=now, failures=failures, host=host),
    )


def failed(row: DesktopRecord, now: float, why: str) -> DesktopRecord:
    """One that was to be made or started, and was refused."""
    if row.doing is Do.START:
        return replace(_as(row, DesktopState.SHELVED, now), why=why)
    return replace(_as(row, DesktopState.FAILED, now), why=why)


def not_updated(row: DesktopRecord, seen: Seen, why: str) -> DesktopRecord:
    """One that was to get another image, and was refused it: it has the one that it had."""
    vm = seen.vms.get(row.vm_id)
    if vm is None or _has_image(row, vm, seen):
        return row
    state = DesktopState.READY if seen.runs(vm) else DesktopState.FAILED
    back = replace(
        row.desktop,
        state=state,
        image=image_of(vm, seen.view.images),
        since=seen.now,
        failures=row.desktop.failures + 1,
    )
    return replace(row, doing=None, why=why, desktop=back)
