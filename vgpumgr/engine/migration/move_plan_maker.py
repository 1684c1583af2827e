"""Makes the plan of a move from a VM, two probed hosts, and the reads from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.migration.move_checks import cold_checks, gpu_checks, host_checks, live_checks
from vgpumgr.engine.migration.move_disks import disk_moves
from vgpumgr.engine.migration.move_plan import MoveCheck, MovePlan, failed_check, passed_check
from vgpumgr.engine.migration.move_reads import MoveReads
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.decisions import decide
from vgpumgr.engine.planning.vm_plan import describe
from vgpumgr.engine.storage.shared_storage import may_be_shared
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.host import HostRecord
from vgpumgr.model.placement import Decision, NotPlaced, Placed, nearest_first
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmRecord, VmSpec, clones_of
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.placement import place
from vgpumgr.placement.defrag.movable_fleet import reseat


def make_plan(
    view: LedgerView,
    vm: VmRecord,
    target: HostRecord,
    looks: MoveReads,
    policy: PlacementPolicy,
    *,
    cold: bool,
    timeout_s: float | None,
    seat: Placed | None = None,
) -> MovePlan:
    """The plan with every check; a VM that is off moves cold. ``seat`` is the place it must have
    on the target, where not any will do.
    """
    source = next(host for host in view.hosts if host.name == vm.host)
    assert source.facts is not None and target.facts is not None, "both were probed"
    live = looks.runs and not cold
    held = [each for each in view.allocations if each.vm_id == vm.id]
    placed, room = _place(view, vm, held, target.name, policy, live=live, seat=seat)
    disks, disk_checks = disk_moves(
        vm, source.facts, target.facts, looks, live=live, clones=clones_of(vm, view.vms)
    )
    checks = [*host_checks(vm, source, target, looks), *room]
    checks += guest_checks(view, vm, target, looks, placed, live=live)
    return MovePlan(
        vm=vm,
        source=source,
        target=target,
        live=live,
        runs=looks.runs,
        xml=looks.xml,
        placed=placed,
        disks=disks,
        checks=(*checks, *disk_checks),
        timeout_s=timeout_s,
    )


def guest_checks(
    view: LedgerView,
    vm: VmRecord,
    target: HostRecord,
    looks: MoveReads,
    placed: Placed | None,
    *,
    live: bool,
) -> Iterator[MoveCheck]:
    """The checks of a guest that runs on while it moves to its place there, or is off."""
    if not live:
        yield from cold_checks(vm, target.name)
        return
    source = next(host for host in view.hosts if host.name == vm.host)
    assert source.facts is not None and target.facts is not None, "both were probed"
    held = [each for each in view.allocations if each.vm_id == vm.id]
    gpus = {gpu.id: gpu.facts for gpu in view.gpus if gpu.host in {vm.host, target.name}}
    yield from live_checks(vm, held, source, target, looks)
    yield from gpu_checks(vm, held, placed, gpus, source.facts, target.facts)


def failed_checks(
    view: LedgerView,
    vm: VmRecord,
    target: HostRecord,
    looks: MoveReads,
    seat: Placed,
    *,
    cold: bool,
) -> Iterator[MoveCheck]:
    """What keeps a VM from a place on the target, whether that is free now or not."""
    source = next(host for host in view.hosts if host.name == vm.host)
    assert source.facts is not None and target.facts is not None, "both were probed"
    live = looks.runs and not cold
    clones = clones_of(vm, view.vms)
    _, disks = disk_moves(vm, source.facts, target.facts, looks, live=live, clones=clones)
    checks = (
        *host_checks(vm, source, target, looks),
        *guest_checks(view, vm, target, looks, seat, live=live),
        *disks,
    )
    return (check for check in checks if not check.holds)


def _place(
    view: LedgerView,
    vm: VmRecord,
    held: Sequence[Allocation],
    target: str,
    policy: PlacementPolicy,
    *,
    live: bool,
    seat: Placed | None,
) -> tuple[Placed | None, tuple[MoveCheck, ...]]:
    """Room on the target alone, as if the VM were nowhere yet."""
    others = replace(view, vms=tuple(each for each in view.vms if each.id != vm.id))
    request = wanted(view, vm.spec, held, target, live=live)
    if seat is not None:
        return _seated(build_fleet(others), replace(seat, request=request))
    [decision] = decide(others, [request], _by(policy))
    if isinstance(decision, NotPlaced):
        reasons = nearest_first(decision.reasons)
        why = dict.fromkeys(each.text for each in reasons if each.host == target)
        explain = f"vgpumgr map, vgpumgr capacity, or another host than {target}"
        return None, tuple(failed_check("room", text, explain, NoPlacement) for text in why)
    return decision, tuple(passed_check("room", line) for line in _room(decision))


def _by(policy: PlacementPolicy) -> PlaceFunction:
    def placing(
        fleet: Fleet,
        requests: Sequence[VmSpec],
        *,
        kept: Sequence[VmSpec] = (),
        taken: Sequence[Placed] = (),
    ) -> tuple[Decision, ...]:
        assert not (kept or taken), "one VM moves, to a host that is named"
        return place(fleet, requests, policy)

    return placing


def _seated(fleet: Fleet, seat: Placed) -> tuple[Placed | None, tuple[MoveCheck, ...]]:
    """The decision for exactly that place, if it is free."""
    placed = reseat(fleet, seat)
    if placed is None:
        where = "; ".join(describe(seat))
        text = f"the place that was planned on {seat.host} is not free any more ({where})"
        return None, (failed_check("room", text, "the same command again makes a new plan"),)
    return placed, tuple(passed_check("room", line) for line in _room(placed))


def _room(placed: Placed) -> Iterator[str]:
    yield from describe(placed)
    where = f" on NUMA node {placed.numa_node}" if placed.numa_node is not None else ""
    yield f"{placed.request.vcpus} vCPUs and {placed.request.memory_mib} MiB{where}"


def wanted(
    view: LedgerView,
    spec: VmSpec,
    held: Sequence[Allocation],
    target: str,
    *,
    live: bool,
) -> VmSpec:
    """The request on the target; a running guest needs the parts that it has, board included.

    What was copied from an image or a backup does not need it any more, and what lies in a pool
    that several hosts may share needs no room there.
    """
    shared = _staying_pools(view, spec)
    own = (_as_it_is(disk, shared) for disk in spec.disks)
    here = replace(spec, affinity=replace(spec.affinity, hosts=(target,)), disks=tuple(own))
    if not live:
        return here
    needed = {each.gpu for each in held}
    models = {gpu.id: gpu.facts.model for gpu in view.gpus if gpu.id in needed}
    return replace(here, gpus=own_parts(held, models))


def _staying_pools(view: LedgerView, spec: VmSpec) -> Collection[str]:
    home = next((vm.host for vm in view.vms if vm.name == spec.name), "")
    facts = next((host.facts for host in view.hosts if host.name == home), None)
    return may_be_shared(facts, {disk.pool for disk in spec.disks}) if facts else ()


def _as_it_is(disk: DiskSpec, shared: Collection[str]) -> DiskSpec:
    size = 0 if disk.pool in shared else disk.size_bytes
    image = disk.image if disk.is_overlay else None
    return replace(disk, image=image, restored=None, size_bytes=size)


def own_parts(held: Sequence[Allocation], models: Mapping[str, str]) -> tuple[GpuRequest, ...]:
    """The GPU parts of a VM as a request that only the same can answer; ``models`` by GPU."""
    parts = Counter(
        GpuRequest(
            profile=each.profile,
            model=models[each.gpu],
            framework=each.framework,
            frame_rate_limiter=each.frame_rate_limiter,
        )
        for each in held
    )
    return tuple(replace(part, count=n) for part, n in parts.items())
