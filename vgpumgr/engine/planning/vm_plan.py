"""The plan of `apply`: desired VMs against ledger and last observation, field by field."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vgpumgr.engine.inventory.ledger_view import LedgerView, ObservedDomains, observed_domains
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.changed_fields import (
    changed_fields,
    key,
    needs_disks,
    needs_restart,
    only_bookkeeping,
    stuck_fields,
)
from vgpumgr.engine.planning.disk_images import resolved
from vgpumgr.engine.planning.hypothetical_layouts import in_words
from vgpumgr.engine.planning.new_seats import NewSeats, released_first
from vgpumgr.engine.planning.own_places import SAID
from vgpumgr.engine.planning.vm_admission import admit, never_fitting, with_waiting
from vgpumgr.model.apply_plan import Action, ActionKind, Plan
from vgpumgr.model.errors import Conflict, HostUnreachable
from vgpumgr.model.formats import exact_size
from vgpumgr.model.host import HostRecord, StoragePool
from vgpumgr.model.placement import Assignment, Decision, NotPlaced, Placed
from vgpumgr.model.rolling import NOT_ROLLING, RollingVms
from vgpumgr.model.vm import VmRecord, VmSpec, VmState
from vgpumgr.model.vm_devices import DiskSpec


def change_waves(
    desired: Iterable[VmSpec],
    known: Mapping[str, VmRecord],
    seen: ObservedDomains,
    rolling: RollingVms,
) -> dict[str, int]:
    """By name, the wave of each VM that runs, rolls and has to stop for its change: of each group
    as many as may stop at once, in the order of the file. Waves of several groups go side by side.
    """
    groups: dict[str, list[str]] = {}
    for spec in desired:
        record = known.get(spec.name)
        if record is not None and spec.name in rolling and _has_to_stop(record, spec, seen):
            groups.setdefault(rolling[spec.name].group, []).append(spec.name)
    return {
        name: number
        for names in groups.values()
        for name, number in _numbered(names, rolling[names[0]].at_once)
    }


def _has_to_stop(record: VmRecord, spec: VmSpec, seen: ObservedDomains) -> bool:
    runs = (record.host, record.name) in seen.running and record.state is VmState.ACTIVE
    return runs and needs_restart(record.spec, spec) and not stuck_fields(record, spec)


def _numbered(names: Sequence[str], at_once: int) -> Iterable[tuple[str, int]]:
    return ((name, place // at_once + 1) for place, name in enumerate(names))


def replacement_command(action: Action) -> str:
    """The commands, and the lines for the file (``FILE``), that replace a VM without loss of a
    disk.
    """
    record = action.record
    name = action.vm.name
    if record is None or not record.spec.disks:
        return f"vgpumgr vm delete {name} --force, then vgpumgr apply -f FILE"
    disks = ", ".join(_disks(record, action.vm.disks))
    return (
        f"vgpumgr vm delete {name} --force --keep-disks, then write for {name} "
        f"disks: [{disks}] and affinity: {{hosts: [{record.host}]}}, "
        "then vgpumgr apply -f FILE   (the old volumes stay until you delete them)"
    )


def _disks(record: VmRecord, wanted: tuple[DiskSpec, ...]) -> Iterator[str]:
    """Each disk that it has, as a copy of its volume; then the disks that are new."""
    for number, (had, (pool, volume)) in enumerate(
        zip(record.spec.disks, record.volumes, strict=False)
    ):
        new = wanted[number] if number < len(wanted) else had
        yield _copied(had, new, pool, volume)
    for disk in wanted[len(record.spec.disks) :]:
        yield _as_written(disk)


def _copied(had: DiskSpec, new: DiskSpec, pool: str, volume: str) -> str:
    grown = new.size_bytes if new.size_bytes > had.size_bytes else 0
    words = {
        "mode": "copy",
        "image": volume,
        "image_format": "raw" if had.format == "raw" else "",
        "size": exact_size(grown) if grown else "",
        "pool": pool if pool != "default" else "",
        "format": "raw" if new.format == "raw" else "",
    }
    return _flow(words | _tuning(new))


def _as_written(disk: DiskSpec) -> str:
    words = {
        "mode": str(disk.mode) if disk.image else "",
        "image": disk.image or "",
        "image_format": disk.image_format if disk.image and disk.image_format != "qcow2" else "",
        "size": exact_size(disk.size_bytes) if disk.size_bytes else "",
        "pool": disk.pool if disk.pool != "default" else "",
        "format": disk.format if disk.format != "qcow2" else "",
    }
    return _flow(words | _tuning(disk))


def _tuning(disk: DiskSpec) -> dict[str, str]:
    tuning = disk.tuning
    return {
        "cache": tuning.cache,
        "serial": tuning.serial,
        "iops": str(tuning.iops or ""),
        "bandwidth": exact_size(tuning.bytes_s) if tuning.bytes_s else "",
    }


def _flow(words: dict[str, str]) -> str:
    """``{size: 5GiB}``."""
    return f"{{{', '.join(f'{key}: {text}' for key, text in words.items() if text)}}}"


def make_plan(
    view: LedgerView,
    desired: Sequence[VmSpec],
    place: PlaceFunction,
    warnings: Iterable[str] = (),
    rolling: RollingVms = NOT_ROLLING,
) -> Plan:
    """The plan of `apply` for these VMs, in waves where they are ``rolling``. VMs that the file no
    longer names are never deleted.
    """
    known = {vm.name: vm for vm in view.vms}
    desired = tuple(
        each.restored_as(known[each.name].spec) if each.name in known else each
        for each in resolved(desired, view.images, known)
    )
    seen = observed_domains(view)
    asked = admit([spec for spec in desired if spec.name not in known], view.queue)
    waves = change_waves(desired, known, seen, rolling)
    seats = NewSeats(view, desired, waves)
    placed = seats.decide(asked.tried, place)
    decisions, waiting = with_waiting(asked, placed, view.queue)
    if waiting and (held_back := asked.without(waiting, placed)):
        placed = seats.decide(held_back.tried, place)
        decisions, waiting = with_waiting(held_back, placed, view.queue)
    if entering := [each.vm for each in waiting if each.new and not _awaits_hosts(each.vm)]:
        never = never_fitting(view, entering)
        decisions |= never
        waiting = tuple(each for each in waiting if each.vm.name not in never)
    actions: list[Action] = []
    unplaced: list[NotPlaced] = []
    unchanged: list[str] = []
    for spec in desired:
        step: Action | NotPlaced | None
        if spec.name in known:
            step = _known(spec, known[spec.name], seen, seats)
        elif spec.name in decisions:
            step = _new(decisions[spec.name])
        else:
            continue  # it waits
        match step:
            case Action() if spec.name in waves and not step.replace:
                number = waves[spec.name]
                actions.append(replace(step, wave=number, rolling=rolling[spec.name]))
            case Action():
                actions.append(step)
            case NotPlaced():
                unplaced.append(step)
            case None:
                unchanged.append(spec.name)
    own_way = seats.in_own_way(place)
    return Plan(
        actions=tuple(actions),
        unplaced=tuple(unplaced),
        unchanged=tuple(unchanged),
        warnings=tuple(warnings),
        waiting=waiting,
        notes=tuple(map(released_first, own_way)),
        in_own_way=own_way,
    )


def _awaits_hosts(spec: VmSpec) -> bool:
    return spec.queue is not None and spec.queue.await_hosts


def _new(decision: Decision) -> Action | NotPlaced:
    if isinstance(decision, NotPlaced):
        return decision
    return Action(
        kind=ActionKind.CREATE,
        vm=decision.request,
        host=decision.host,
        placed=decision,
        details=tuple(describe(decision)),
    )


def describe(placed: Placed) -> Iterable[str]:
    """A line per GPU that is partitioned first, per GPU part, and one for pinned CPUs."""
    for device, layout in {each.device: each.layout for each in placed.assignments}.items():
        if layout is not None:
            yield f"partition {device}: {in_words(layout)}"
    for part in placed.assignments:
        yield f"{part.offer.profile} on {part.device}{_where(part)}"
    if placed.partition is not None:
        yield f"NVSwitch partition {placed.partition}"
    if placed.cpus:
        yield f"pinned to CPUs {_range(placed.cpus)}"


def _where(part: Assignment) -> str:
    """VF, GPU instance or placement id, and the slots."""
    offer = part.offer
    words = [f"VF {part.vf.address}"] if part.vf else []
    if offer.instance is not None:
        made = "new" if part.make_instance else "existing"
        words.append(f"{made} {offer.instance.profile} at slice {part.start}")
    elif offer.starts:
        words.append(f"placement id {part.start}")
    if part.slots:
        words.append(f"slots {_range(part.slots)}")
    return f" ({', '.join(words)})" if words else ""


def _range(numbers: tuple[int, ...]) -> str:
    low, high = min(numbers), max(numbers)
    if high - low + 1 == len(numbers):
        return str(low) if low == high else f"{low}-{high}"
    return ",".join(map(str, numbers))


def _known(
    spec: VmSpec, record: VmRecord, seen: ObservedDomains, seats: NewSeats
) -> Action | NotPlaced | None:
    where = (record.host, record.name)
    if record.state not in {VmState.ACTIVE, VmState.SHELVED}:
        return Action(
            kind=ActionKind.RESUME,
            vm=spec,
            host=record.host,
            record=record,
            details=(f"unfinished: {record.state}",),
        )
    fields = changed_fields(record.spec, spec, adopted=bool(record.definition))
    if fields:
        change = Action(
            kind=ActionKind.CHANGE,
            vm=spec,
            host=record.host,
            record=record,
            details=tuple(fields),
        )
        if stuck_fields(record, spec):
            return replace(change, replace=replacement_command(change))
        if record.state is VmState.SHELVED and needs_disks(record.spec, spec):
            first = f"vgpumgr vm start {spec.name}, then vgpumgr apply -f FILE --restart"
            return replace(change, replace=first)
        seat = seats.of(spec.name)
        if isinstance(seat, NotPlaced):
            return seat
        if seat is not None:
            change = _reseated(change, seat, first=seats.releases_first(spec.name))
        stops = needs_restart(record.spec, spec) and where in seen.running
        return replace(change, needs_restart=stops)
    awake = record.host in seen.hosts - seen.resting
    if record.running and awake and where not in seen.running:
        lost = "" if where in seen.defined else ", not even defined"
        return Action(
            kind=ActionKind.START,
            vm=spec,
            host=record.host,
            record=record,
            details=(f"is not running{lost}",),
        )
    return None


def _reseated(change: Action, seat: Placed, *, first: bool) -> Action:
    said = (SAID,) if first else ()
    details = (*change.details, *describe(seat), *said)
    return replace(change, placed=seat, details=details, releases_first=first)


MOST_NAMED = 5


def refuse_impossible(action: Action) -> None:
    """Conflict when a change needs a new VM: other disks, or another cloud-init text."""
    if action.record is None or not action.replace:
        return
    stuck = stuck_fields(action.record, action.vm) or ("disks",)
    raise Conflict(
        f"{action.vm.name} cannot change {', '.join(map(key, stuck))} in place",
        why="; ".join(action.details),
        next=action.replace,
    )


def refuse_more_disks(action: Action) -> None:
    """Conflict where a VM with snapshots would get more disks: they would have no earlier state."""
    record = action.record
    if record is None or not record.snapshots or len(action.vm.disks) == len(record.spec.disks):
        return
    names = ", ".join(each.name for each in record.snapshots)
    raise Conflict(
        f"{record.name} cannot have more disks",
        why=f"it has snapshots ({names}): all its disks are brought back together",
        next=f"vgpumgr vm snapshot delete {record.name} {record.snapshots.snapshots[0].name}",
    )


def refuse_oversized(actions: Iterable[Action], hosts: Iterable[HostRecord]) -> None:
    """Conflict where a disk that grows, or comes, is larger than all of its storage pool, or new
    bytes of a VM are more than is free of it: it could not be filled, and would not get smaller
    again. Placement looks for room for a new VM's.
    """
    pools = {
        (host.name, pool.name): pool
        for host in hosts
        for pool in (host.facts.pools if host.facts else ())
    }
    for action in actions:
        for name, disks in _more_bytes(action).items():
            pool = pools.get((action.host, name))
            if pool is not None:
                _refuse_full(action, pool, disks)


def _more_bytes(action: Action) -> dict[str, list[tuple[int, int]]]:
    """By storage pool: the size of each disk that comes or grows, and how much of it is new."""
    had = action.record.spec.disks if action.record else action.vm.disks
    found: dict[str, list[tuple[int, int]]] = {}
    for number, disk in enumerate(action.vm.disks):
        if disk not in had:
            before = had[number].size_bytes if number < len(had) else 0
            found.setdefault(disk.pool, []).append((disk.size_bytes, disk.size_bytes - before))
    return found


def _refuse_full(action: Action, pool: StoragePool, disks: Sequence[tuple[int, int]]) -> None:
    largest, more = max(size for size, _ in disks), sum(new for _, new in disks)
    has = f"storage pool {pool.name} of {action.host} has"
    why = ""
    if 0 < pool.capacity_bytes < largest:
        why = f"{has} {exact_size(pool.capacity_bytes)} in all"
    elif pool.capacity_bytes and pool.room_bytes < more:
        why = f"{has} {exact_size(pool.room_bytes)} free"
    if why:
        asked = exact_size(largest if len(disks) == 1 else more)
        raise Conflict(
            f"{action.vm.name} cannot have {'a disk' if len(disks) == 1 else 'disks'} of {asked}",
            why=why,
            next="a smaller size, or another pool",
        )


def refuse_unreached(action: Action, reached: Collection[str]) -> None:
    """HostUnreachable when a definition would change on a host that did not answer."""
    if action.record is None or action.host in reached:
        return
    if not only_bookkeeping(action.record.spec, action.vm):
        raise HostUnreachable(
            f"{action.vm.name} cannot be changed",
            why=f"host {action.host} did not answer",
            next=f"vgpumgr host probe {action.host}",
        )


def refuse_restart(actions: Iterable[Action]) -> None:
    """Conflict when a change needs a stop that the user did not allow."""
    waiting = [action for action in actions if action.needs_restart]
    if waiting:
        names = ", ".join(action.vm.name for action in waiting[:MOST_NAMED])
        rest = len(waiting) - MOST_NAMED
        raise Conflict(
            f"the change needs a stop of {names}{f' and {rest} more' if rest > 0 else ''}",
            why="; ".join(dict.fromkeys(detail for each in waiting for detail in each.details)),
            next="vgpumgr apply -f FILE --restart",
        )
