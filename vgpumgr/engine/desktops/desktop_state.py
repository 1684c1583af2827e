"""A desktop's row (the intent) beside its VM (the fact), and a pool as its controller sees it.
Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vgpumgr.engine.desktops.pool_size import serving_pool
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.planning.disk_images import resolved
from vgpumgr.engine.planning.licence_limits import seats_used
from vgpumgr.model.desktop import (
    Booking,
    Desktop,
    DesktopRecord,
    DesktopRequestRecord,
    DesktopSession,
    DesktopState,
    DesktopVerb,
    PoolAction,
    PoolRecord,
    PoolView,
)
from vgpumgr.model.guest import GuestPhase
from vgpumgr.model.holiday_calendar import NO_HOLIDAYS, Holidays
from vgpumgr.model.host import HostRecord
from vgpumgr.model.image import ImageRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.load_scale import LoadWindow
from vgpumgr.model.placement import Placed
from vgpumgr.model.pool import PoolKind, PoolSpec
from vgpumgr.model.quota import Amount, held_by_tenants
from vgpumgr.model.vm import PlacementPolicy, VmRecord, VmSpec, VmState
from vgpumgr.placement import Placer
from vgpumgr.placement.headroom import startable
from vgpumgr.placement.queue.tenant_shares import amount_of


def floating_desktops(ledger: Ledger) -> dict[str, str]:
    """Ids of the VMs that are desktops of floating pools, and their pools' names."""
    pools = {each.id: each.name for each in ledger.pools() if each.spec.kind is PoolKind.FLOATING}
    if not pools:
        return {}
    rows = (row for row in ledger.desktops() if row.pool in pools and row.vm_id)
    return {row.vm_id: pools[row.pool] for row in rows}


class FreeCapacity:
    """The fleet's free capacity, less the capacity promised to desktops that hold nothing yet."""

    def __init__(self, view: LedgerView) -> None:
        self._placer = Placer(build_fleet(view), PlacementPolicy.BREADTH_FIRST)
        self._limits = {each.tenant: each for each in view.quotas}
        self._held = held_by_tenants(view.vms, view.allocations, view.gpus) if self._limits else {}
        self._licences = tuple(view.licences)
        self._seats = seats_used(view) if self._licences else Counter[str]()

    def promise(self, wanted: Iterable[VmSpec]) -> None:
        """These are to be made, where they fit."""
        for each in wanted:
            placed = self._placer.decide(each, explain=False)
            if isinstance(placed, Placed):
                self._placer.commit(placed)
                self._held[each.tenant] = self._has(each.tenant) + amount_of(placed)
                self._seats.update(amount_of(placed).seats)

    def startable(self, wanted: VmSpec, most: int) -> int:
        """How many like this one fit on top of that and under the tenant's quota, with a licence
        seat each.
        """
        found = startable(self._placer, wanted, most)
        return min(found, self._allowed(wanted, found)) if found else 0

    def _allowed(self, wanted: VmSpec, most: int) -> int:
        limit = self._limits.get(wanted.tenant)
        if limit is None and not self._licences:
            return most
        placed = self._placer.decide(wanted, explain=False)
        if not isinstance(placed, Placed):
            return most
        one, held = amount_of(placed), self._has(wanted.tenant)
        most = min([most, *self._seats_left(one)])
        for count in range(most if limit is not None else 0):
            if limit is not None and limit.exceeded_by(held, one):
                return count
            held += one
        return most

    def _seats_left(self, one: Amount) -> Iterator[int]:
        for each in self._licences:
            if asked := one.seats.get(each.edition):
                yield max(0, each.seats - self._seats[each.edition]) // asked

    def _has(self, tenant: str) -> Amount:
        return self._held.get(tenant, Amount())


def desktop_spec(pool: PoolSpec, name: str, image: str, images: Iterable[ImageRecord]) -> VmSpec:
    """The VM of a desktop of that name, its first disk over ``image`` (``name@version``): the
    ledger's, or a volume ``name@version.qcow2`` that lies on the hosts. Conflict: it is retired.
    """
    known = {each.reference: each for each in images}
    system, *more = pool.desktop.disks
    system = replace(system, image=image if image in known else f"{image}.qcow2")
    made = replace(pool.desktop, name=name, disks=(system, *more), queue=None)
    [found] = resolved([made], known.values())
    return found


def image_of(vm: VmRecord, images: Iterable[ImageRecord]) -> str:
    """The image under a desktop's first disk, as :func:`desktop_spec` was given it."""
    volume = vm.spec.disks[0].image or ""
    known = {each.volume: each.reference for each in images}
    return known.get(volume, volume.removesuffix(".qcow2"))


def row_after(
    action: PoolAction, pool: PoolRecord, row: DesktopRecord | None, now: float, new_id: str
) -> DesktopRecord | None:
    """The row as the action leaves it; None where it is not what was decided on."""
    if row is None or action.seen is None:
        return _new(action, pool, now, new_id) if row is None and action.seen is None else None
    if row.desktop != action.seen:
        return None
    after = replace(row, why=action.why)
    it = row.desktop
    match action.do:
        case DesktopVerb.ASSIGN:
            return replace(after, desktop=_assigned(it, action, pool, now))
        case DesktopVerb.DISCONNECT if it.session is not None:
            return replace(
                after, desktop=replace(it, session=replace(it.session, disconnected=now))
            )
        case DesktopVerb.LOGOFF:
            return replace(after, desktop=replace(it, session=None, since=now))
        case DesktopVerb.RECREATE:
            failures = it.failures if it.image == action.image else 0
            fresh = replace(it, image=action.image, stained=False, failures=failures)
            return _begun(after, fresh, DesktopVerb.RECREATE, DesktopState.CREATING, now)
        case DesktopVerb.UPDATE:
            tried = pool.rollout is not None and it.since >= pool.rollout.since
            newer = replace(it, image=action.image, failures=it.failures if tried else 0)
            return _begun(after, newer, DesktopVerb.UPDATE, DesktopState.CREATING, now)
        case DesktopVerb.START | DesktopVerb.HEAL:
            return _begun(after, it, action.do, DesktopState.CREATING, now)
        case DesktopVerb.DELETE | DesktopVerb.SHELVE:
            return _begun(after, it, action.do, DesktopState.LEAVING, now)
        case _:
            return None


def _new(action: PoolAction, pool: PoolRecord, now: float, new_id: str) -> DesktopRecord:
    made = Desktop(name=action.desktop, state=DesktopState.CREATING, image=action.image, since=now)
    return DesktopRecord(
        id=new_id, pool=pool.id, desktop=made, doing=DesktopVerb.CREATE, why=action.why
    )


def _begun(
    row: DesktopRecord, it: Desktop, do: DesktopVerb, state: DesktopState, now: float
) -> DesktopRecord:
    return replace(row, doing=do, desktop=replace(it, state=state, since=now))


def _assigned(it: Desktop, action: PoolAction, pool: PoolRecord, now: float) -> Desktop:
    """The desktop with a new session, or with the session that its user returns to."""
    if it.session is not None:
        return replace(it, session=replace(it.session, active=now, disconnected=None))
    begun = DesktopSession(user=action.user, since=now, active=now, booking=action.booking)
    owner = action.user if pool.spec.kind is PoolKind.DEDICATED else ""
    return replace(it, session=begun, owner=owner, stained=True)


_STARTS = frozenset({DesktopVerb.CREATE, DesktopVerb.START, DesktopVerb.HEAL, None})
# What is not done any more once the host is lost.
_LOSES = _STARTS | {DesktopVerb.RECREATE}


@dataclass(frozen=True)
class DesktopReading:
    """The ledger as read at ``now``, for the states of desktops; ``busy`` are VMs (ids) with
    unfinished tasks.
    """

    view: LedgerView
    busy: Collection[str]
    now: float

    @cached_property
    def vms(self) -> dict[str, VmRecord]:
        """VMs that there are, by id."""
        return {vm.id: vm for vm in self.view.vms}

    @cached_property
    def _reached(self) -> tuple[Collection[str], Collection[tuple[str, str]]]:
        found = observed_domains(self.view)
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


def updated_rows(rows: Iterable[DesktopRecord], seen: DesktopReading) -> list[DesktopRecord]:
    """The rows that are not what their VMs show, as they become."""
    found = ((row, _look(row, seen)) for row in rows)
    return [new for old, new in found if new != old]


def hosts_to_ask_again(rows: Iterable[DesktopRecord], seen: DesktopReading) -> frozenset[str]:
    """The hosts to ask once more before a desktop there is said to have failed."""
    return frozenset(
        each.desktop.host
        for each in updated_rows(rows, seen)
        if each.vm_id and each.desktop.state is DesktopState.FAILED
    )


def _look(row: DesktopRecord, seen: DesktopReading) -> DesktopRecord:
    vm = seen.vms.get(row.vm_id)
    if vm is not None and vm.id in seen.busy:
        return _under_way(row, vm, seen)
    if vm is None:
        # Taken back, it may yet be made elsewhere.
        return row if row.vm_id in seen.busy else _without_vm(row, seen.now)
    if vm.host in seen.lost and vm.state is VmState.ACTIVE and row.doing in _LOSES:
        return _at(_as(row, DesktopState.LOST, seen.now, "its host was lost"), vm)
    if row.doing is DesktopVerb.SHELVE and vm.state is VmState.SHELVED:
        return _as(row, DesktopState.SHELVED, seen.now)
    if row.doing in _STARTS or (row.doing is DesktopVerb.UPDATE and _has_image(row, vm, seen)):
        return _by_fact(row, vm, seen)
    return _under_way(row, vm, seen)


def _under_way(row: DesktopRecord, vm: VmRecord, seen: DesktopReading) -> DesktopRecord:
    """The row of a desktop with work under way or due; while its host does not answer, the state is
    unknown.
    """
    state = DesktopState.CREATING if seen.answers(vm.host) else DesktopState.UNKNOWN
    both = {DesktopState.CREATING, DesktopState.UNKNOWN}
    if row.doing is None or row.desktop.state not in both - {state}:
        return row
    return replace(row, desktop=replace(row.desktop, state=state, host=vm.host))


def _without_vm(row: DesktopRecord, now: float) -> DesktopRecord:
    if row.doing is DesktopVerb.CREATE and row.vm_id:
        failed = _as(row, DesktopState.FAILED, now, "it could not be created")
        return replace(failed, vm_id="", desktop=replace(failed.desktop, host=""))
    if row.doing is DesktopVerb.DELETE or (row.doing is not DesktopVerb.RECREATE and row.vm_id):
        return replace(row, closed_at=now, doing=None, why=row.why or "its VM is gone")
    return row


def _has_image(row: DesktopRecord, vm: VmRecord, seen: DesktopReading) -> bool:
    """Does its first disk lie over the image that it was to get?"""
    return image_of(vm, seen.view.images) == row.desktop.image


def _by_fact(row: DesktopRecord, vm: VmRecord, seen: DesktopReading) -> DesktopRecord:
    if vm.state is VmState.SHELVED:
        return row if row.doing else _as(row, DesktopState.SHELVED, seen.now)
    if vm.state is not VmState.ACTIVE:
        return row
    if not seen.answers(vm.host):
        return _at(_as(row, DesktopState.UNKNOWN, seen.now, "its host did not answer"), vm)
    if seen.runs(vm):
        return _at(_by_guest(row, vm, seen.now), vm)
    if row.doing is DesktopVerb.HEAL:
        return row  # it is to be started still
    return _at(_as(row, DesktopState.FAILED, seen.now, "its guest does not run"), vm)


def _by_guest(row: DesktopRecord, vm: VmRecord, now: float) -> DesktopRecord:
    """A desktop is ready when its guest is, where profiles check that; one that a user has is not
    taken by a check.
    """
    if vm.spec.guest is None or row.desktop.used:
        return _as(row, DesktopState.READY, now)
    phase = vm.guest.phase if vm.guest is not None else GuestPhase.UNKNOWN
    if phase is GuestPhase.READY:
        return _as(row, DesktopState.READY, now)
    if phase is GuestPhase.FAILED and vm.guest is not None:
        return _as(row, DesktopState.FAILED, now, f"its guest: {vm.guest.why}")
    return _as(row, DesktopState.CREATING, now, "its guest is starting")


def _at(row: DesktopRecord, vm: VmRecord) -> DesktopRecord:
    return replace(row, desktop=replace(row.desktop, host=vm.host))


def _as(row: DesktopRecord, state: DesktopState, now: float, why: str = "") -> DesktopRecord:
    """The row in a state, its action done; the time of an unchanged state goes on."""
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
    """The row of a desktop whose creation or start was refused."""
    if row.doing is DesktopVerb.START:
        return replace(_as(row, DesktopState.SHELVED, now), why=why)
    return replace(_as(row, DesktopState.FAILED, now), why=why)


def not_updated(row: DesktopRecord, seen: DesktopReading, why: str) -> DesktopRecord:
    """The row of a desktop whose new image was refused: it keeps the image that it had."""
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


def view_of(
    pool: PoolRecord,
    *,
    pools: Sequence[PoolRecord],
    rows: Sequence[DesktopRecord],
    asks: Sequence[DesktopRequestRecord],
    bookings: Sequence[Booking],
    hosts: Sequence[HostRecord],
    startable: int,
    now: float,
    load: LoadWindow | None = None,
    holidays: Holidays = NO_HOLIDAYS,
    expected: int = 0,
) -> PoolView:
    """A pool's own part of all pools, desktops, requests and bookings."""
    specs = [each.spec for each in pools if not each.closing]
    return PoolView(
        pool=pool.spec,
        desktops=tuple(each.desktop for each in rows if each.pool == pool.id),
        now=now,
        startable=startable,
        asks=tuple(each.ask for each in asks if each.pool == pool.id),
        rollout=pool.rollout,
        draining={host.name: host.logoff_by for host in hosts if host.draining},
        bookings=tuple(each for each in bookings if serving_pool(each, specs) == pool.spec),
        closing=pool.closing,
        load=load,
        holidays=holidays,
        expected=expected,
    )
