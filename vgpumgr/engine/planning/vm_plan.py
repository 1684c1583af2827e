"""Desired VMs against ledger and last observation: create, change, replace, keep, or queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.inventory.host_supply import LATELY_REFUSED, ExcludedSupply, build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.engine_context import Place
from vgpumgr.engine.planning.disk_images import resolved
from vgpumgr.engine.planning.queue_admission import ask, beyond, settled
from vgpumgr.engine.planning.quota_check import within_quotas
from vgpumgr.engine.planning.spec_changes import changed_fields, needs_restart, stuck_fields
from vgpumgr.engine.steps import OFF
from vgpumgr.model.apply_plan import Action, ActionKind, Plan
from vgpumgr.model.formats import exact_size
from vgpumgr.model.host import HostFacts
from vgpumgr.model.placement import Assignment, Decision, NotPlaced, Placed
from vgpumgr.model.vm import DiskSpec, VmRecord, VmSpec, VmState


def decide(
    view: LedgerView,
    requests: Sequence[VmSpec],
    place: Place,
    left: ExcludedSupply = LATELY_REFUSED,
) -> tuple[Decision, ...]:
    """Beside what refused lately, and where that does not hold all of them, with it. Never on what
    is ``left`` out.
    """
    found = place(build_fleet(view, left), requests)
    if all(isinstance(each, Placed) for each in found) or not view.backing_off:
        return found
    return place(build_fleet(view, left.with_back_off), requests)


def way_on(action: Action) -> str:
    """What to type, and to write into the file (``FILE``), to get there without losing a disk."""
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
    return _flow(words)


def _as_written(disk: DiskSpec) -> str:
    words = {
        "mode": str(disk.mode) if disk.image else "",
        "image": disk.image or "",
        "image_format": disk.image_format if disk.image and disk.image_format != "qcow2" else "",
        "size": exact_size(disk.size_bytes) if disk.size_bytes else "",
        "pool": disk.pool if disk.pool != "default" else "",
        "format": disk.format if disk.format != "qcow2" else "",
    }
    return _flow(words)


def _flow(words: dict[str, str]) -> str:
    """``{size: 5GiB}``."""
    return f"{{{', '.join(f'{key}: {text}' for key, text in words.items() if text)}}}"


@dataclass(frozen=True, slots=True)
class Reached:
    """Which domains run, and which are defined at all, per host that answered the probe.

    On ``resting`` hosts, which are in maintenance, nobody acts.
    """

    running: frozenset[tuple[str, str]]
    defined: frozenset[tuple[str, str]]
    hosts: frozenset[str]
    resting: frozenset[str] = frozenset()


def reached(view: LedgerView) -> Reached:
    """Read the domains out of the last observation, of the hosts whose libvirt answered."""
    answered = {
        host.name: host.facts.domains
        for host in view.hosts
        if host.facts and not host.last_error and not _lacks_domains(host.facts)
    }
    domains = [(host, domain) for host, found in answered.items() for domain in found]
    return Reached(
        running=frozenset((host, d.name) for host, d in domains if d.state not in OFF),
        defined=frozenset((host, d.name) for host, d in domains),
        hosts=frozenset(answered),
        resting=frozenset(host.name for host in view.hosts if host.maintenance),
    )


def _lacks_domains(facts: HostFacts) -> bool:
    return any(unknown.part in {"libvirt", "domains"} for unknown in facts.unknown)


def make_plan(
    view: LedgerView,
    desired: Sequence[VmSpec],
    place: Place,
    warnings: Iterable[str] = (),
) -> Plan:
    """What apply would do for these VMs. It never deletes what the file no longer names."""
    known = {vm.name: vm for vm in view.vms}
    desired = resolved(desired, view.images, known)
    seen = reached(view)
    asked = ask([spec for spec in desired if spec.name not in known], view.queue)
    placed = within_quotas(view, decide(view, asked.tried, place))
    decisions, waiting = settled(asked, placed, view.queue)
    if held_back := asked.without(waiting, placed):
        placed = within_quotas(view, decide(view, held_back.tried, place))
        decisions, waiting = settled(held_back, placed, view.queue)
    never = beyond(view, (each.vm for each in waiting if each.new and not _awaits_hosts(each.vm)))
    decisions |= never
    waiting = tuple(each for each in waiting if each.vm.name not in never)
    actions: list[Action] = []
    unplaced: list[NotPlaced] = []
    unchanged: list[str] = []
    for spec in desired:
        step: Action | NotPlaced | None
        if spec.name in known:
            step = _known(spec, known[spec.name], seen)
        elif spec.name in decisions:
            step = _new(decisions[spec.name])
        else:
            continue  # it waits
        match step:
            case Action():
                actions.append(step)
            case NotPlaced():
                unplaced.append(step)
            case None:
                unchanged.append(spec.name)
    return Plan(
        actions=tuple(actions),
        unplaced=tuple(unplaced),
        unchanged=tuple(unchanged),
        warnings=tuple(warnings),
        waiting=waiting,
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
    """A line per GPU part, and one for pinned CPUs."""
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


def _known(spec: VmSpec, record: VmRecord, seen: Reached) -> Action | None:
    where = (record.host, record.name)
    if record.state not in {VmState.ACTIVE, VmState.SHELVED}:
        return Action(
            kind=ActionKind.RESUME,
            vm=spec,
            host=record.host,
            record=record,
            details=(f"unfinished: {record.state}",),
        )
    fields = changed_fields(record.spec, spec)
    if fields:
        change = Action(
            kind=ActionKind.CHANGE,
            vm=spec,
            host=record.host,
            record=record,
            details=tuple(fields),
        )
        if stuck_fields(record.spec, spec):
            return replace(change, replace=way_on(change))
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
