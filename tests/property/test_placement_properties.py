"""Placement against an oracle that recomputes every constraint from the supply alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Decision, NotPlaced, Placed
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, NumaSupply, Offer, Usage
from vgpumgr.model.vm import Affinity, GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.model.vm_devices import DiskSpec, NicSpec
from vgpumgr.placement import FITS, explain, headroom, place
from vgpumgr.placement.placer import evenly

pytestmark = pytest.mark.mainline

BREADTH, DEPTH = PlacementPolicy.BREADTH_FIRST, PlacementPolicy.DEPTH_FIRST
PAGE = 1048576
GROUPS = ({"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"})


# --- random fleets and requests ---

_half = st.booleans()
_rare = st.integers(0, 7).map(lambda n: n == 7)


def vgpu(gib: int, *, mixed: bool, max_per_vm: int, most: int) -> Offer:
    return Offer(
        profile=f"{gib}Q",
        framework=Framework.MDEV,
        type_id=f"type-{gib}",
        units=gib,
        max_instances=most,
        memory_mib=gib * 1024,
        size_class=0 if mixed else gib,
        max_per_vm=max_per_vm,
    )


@st.composite
def gpu_supplies(draw: st.DrawFn, name: str) -> GpuSupply:
    units = draw(st.sampled_from([4, 8]))
    mixed = draw(st.booleans())
    whole = Offer(
        profile="passthrough",
        framework=Framework.PASSTHROUGH,
        type_id="",
        units=units,
        max_instances=1,
        memory_mib=units * 1024,
    )
    per_vm, most = draw(st.sampled_from([1, 2, 16])), draw(st.sampled_from([1, 8, 8]))
    sizes = draw(st.sets(st.sampled_from([1, 2, 4]), min_size=1))
    offers = [vgpu(g, mixed=mixed, max_per_vm=per_vm, most=most) for g in sorted(sizes)]
    held = draw(st.lists(st.sampled_from(offers), max_size=2)) if draw(_half) else []
    held = [whole] if draw(_rare) else held if mixed else held[:1] * len(held)
    while sum(offer.units for offer in held) > units:
        held.pop()
    taken = sum(offer.units for offer in held)
    free = draw(st.permutations(range(units)))[taken:]
    return GpuSupply(
        id=name,
        device=f"dev-{name}",
        model=draw(st.sampled_from(["T4", "A40"])),
        numa_node=draw(st.sampled_from([None, 0, 1])),
        units=units,
        free_slots=tuple(free),
        offers=(*offers, whole),
        usages=tuple(
            Usage(profile=o.profile, framework=o.framework, units=o.units, size_class=o.size_class)
            for o in held
        ),
        same_size=not mixed,
        available={offers[0].type_id: draw(st.integers(0, 3))} if draw(_rare) else {},
        blocked="quarantined" if draw(_rare) else "",
        passthrough_blocked="IOMMU off" if draw(_rare) else "",
    )


@st.composite
def host_supplies(draw: st.DrawFn, name: str) -> HostSupply:
    nodes = tuple(
        NumaSupply(
            id=node,
            free_cpus=tuple(range(node * 10, node * 10 + draw(st.integers(0, 9)))),
            free_memory_mib=draw(st.integers(0, 12)) * 1024,
            free_hugepages={PAGE: draw(st.integers(0, 6))},
        )
        for node in range(draw(st.sampled_from([2, 1, 0])))
    )
    return HostSupply(
        name=name,
        free_vcpus=24 - draw(st.integers(0, 24)),
        free_memory_mib=(16 - draw(st.integers(0, 16))) * 1024,
        numa=nodes,
        gpus=tuple(draw(gpu_supplies(f"{name}-g{n}")) for n in range(3 - draw(st.integers(0, 3)))),
        labels=draw(st.sampled_from([{}, {"rack": "1"}])),
        networks=draw(st.sampled_from([("lab",), ("lab",), ()])),
        pools=draw(st.sampled_from([{"fast": 1}, {"fast": 1}, {}])),
        vm_labels=tuple(draw(st.lists(st.sampled_from(GROUPS), max_size=1))),
        blocked="cordoned" if draw(_rare) else "",
    )


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    count = draw(st.integers(1, 3))
    return Fleet(hosts=tuple(draw(host_supplies(f"h{n}")) for n in range(count)))


@st.composite
def requests(draw: st.DrawFn, parts: tuple[int, ...] = (1, 2, 3, 0)) -> VmSpec:
    some_labels = st.sampled_from([{}, {}, *GROUPS])
    left, gpus = draw(st.sampled_from(parts)), []
    while left:
        part = GpuRequest(
            profile=draw(st.sampled_from(["1Q", "2Q", "4Q", "passthrough"])),
            count=draw(st.integers(1, left)),
            **draw(st.sampled_from([{}, {}, {"model": "t4"}, {"models": ("a40", "t4")}])),
        )
        left -= part.count
        gpus.append(part)
    return VmSpec(
        name="vm",
        vcpus=draw(st.integers(1, 4)),
        memory_mib=draw(st.integers(1, 3)) * 1024,
        gpus=tuple(gpus),
        pin_cpus=draw(_half),
        nics=(NicSpec(network="lab"),) if draw(_rare) else (),
        disks=(DiskSpec(pool="fast"),) if draw(_rare) else (),
        numa=draw(st.sampled_from(NumaPolicy)),
        hugepage_kib=draw(st.sampled_from([None, None, PAGE])),
        affinity=Affinity(
            hosts=("h0", "h2") if draw(_rare) else (),
            host_labels={"rack": "1"} if draw(_rare) else {},
            together_with=draw(some_labels) if draw(_rare) else {},
            apart_from=draw(some_labels) if draw(_rare) else {},
        ),
        policy=draw(st.sampled_from([None, *PlacementPolicy])),
        labels=draw(some_labels),
    )


policies = st.sampled_from(PlacementPolicy)


# --- the oracle ---


def has(wanted: object, labels: object) -> bool:
    return bool(wanted) and dict(wanted).items() <= dict(labels).items()  # type: ignore[call-overload]


def host_takes(fleet: Fleet, host: HostSupply, request: VmSpec) -> bool:
    """Everything but GPUs, CPUs, memory and pages."""
    wanted = request.affinity
    everyone = [labels for other in fleet.hosts for labels in other.vm_labels]
    together = (
        not wanted.together_with
        or any(has(wanted.together_with, labels) for labels in host.vm_labels)
        or (
            has(wanted.together_with, request.labels)
            and not any(has(wanted.together_with, labels) for labels in everyone)
        )
    )
    return (
        not host.blocked
        and together
        and (not wanted.host_labels or has(wanted.host_labels, host.labels))
        and not any(has(wanted.apart_from, labels) for labels in host.vm_labels)
        and (not wanted.hosts or host.name in wanted.hosts)
        and all(nic.network in host.networks for nic in request.nics)
        and all(disk.pool in host.pools for disk in request.disks)
        and host.free_vcpus >= request.vcpus
    )


def room_for(host: HostSupply, request: VmSpec, node: int | None) -> bool:
    """CPUs, memory and pages on the node, or anywhere."""
    nodes = [n for n in host.numa if node is None or n.id == node]
    cpus = sum(len(n.free_cpus) for n in nodes)
    pages = sum(n.free_hugepages.get(PAGE, 0) for n in nodes)
    if request.pin_cpus and cpus < request.vcpus:
        return False
    if request.hugepage_kib:
        return pages * 1024 >= request.memory_mib
    on_node = node is None or nodes[0].free_memory_mib >= request.memory_mib
    return host.free_memory_mib >= request.memory_mib and on_node


def gpus_hold(request: VmSpec, parts: Sequence[tuple[GpuSupply, GpuRequest]]) -> bool:
    """Whether the GPUs can hold these parts of one VM together."""
    vgpus = sum(part.profile != "passthrough" for _, part in parts)
    by_gpu: dict[str, list[tuple[GpuSupply, GpuRequest]]] = {}
    for gpu, part in parts:
        by_gpu.setdefault(gpu.id, []).append((gpu, part))
    return all(gpu_holds(group[0][0], [p for _, p in group], vgpus) for group in by_gpu.values())


def gpu_holds(gpu: GpuSupply, parts: Sequence[GpuRequest], vgpus: int) -> bool:
    offers = {offer.profile: offer for offer in gpu.offers}
    models = {part.model.casefold() for part in parts if part.model}
    if any(part.models and gpu.model.casefold() not in part.models for part in parts):
        return False
    if (
        gpu.blocked
        or models - {gpu.model.casefold()}
        or any(p.profile not in offers for p in parts)
    ):
        return False
    made = [offers[part.profile] for part in parts]
    if any(offer.framework is Framework.PASSTHROUGH for offer in made):
        empty = not gpu.usages and len(gpu.free_slots) == gpu.units
        return len(made) == 1 and empty and not gpu.passthrough_blocked
    if any(usage.framework is Framework.PASSTHROUGH for usage in gpu.usages):
        return False
    classes = {u.size_class for u in gpu.usages} | {o.size_class for o in made}
    live = Counter(usage.profile for usage in gpu.usages)
    live.update(offer.profile for offer in made)
    new = Counter(offer.type_id for offer in made)
    return (
        (not gpu.same_size or len(classes) == 1)
        and all(vgpus <= offer.max_per_vm for offer in made)
        and all(live[offer.profile] <= offer.max_instances for offer in made)
        and all(count <= gpu.available.get(kind, count) for kind, count in new.items())
        and sum(offer.units for offer in made) <= len(gpu.free_slots)
    )


def arrangements(host: HostSupply, request: VmSpec) -> Iterator[list[tuple[GpuSupply, GpuRequest]]]:
    wanted = [part for part in request.gpus for _ in range(part.count)]
    for gpus in product(host.gpus, repeat=len(wanted)):
        parts = list(zip(gpus, wanted, strict=True))
        if gpus_hold(request, parts):
            yield parts


def host_fits(fleet: Fleet, host: HostSupply, request: VmSpec) -> bool:
    """Brute force: some arrangement of the parts and some node satisfy every rule."""
    if not host_takes(fleet, host, request):
        return False
    if request.numa is not NumaPolicy.REQUIRE:
        return room_for(host, request, None) and any(True for _ in arrangements(host, request))
    return any(
        room_for(host, request, node.id) and all(gpu.numa_node == node.id for gpu, _ in parts)
        for node in host.numa
        for parts in arrangements(host, request)
    ) and room_for(host, request, None)


def after(fleet: Fleet, placed: Placed) -> Fleet:
    """The supply that the next look would find."""
    return Fleet(
        hosts=tuple(
            _host_after(host, placed) if host.name == placed.host else host for host in fleet.hosts
        )
    )


def _host_after(host: HostSupply, placed: Placed) -> HostSupply:
    request = placed.request
    ordinary = 0 if request.hugepage_kib else request.memory_mib
    pages = request.memory_mib // 1024 if request.hugepage_kib else 0
    nodes = []
    for node in host.numa:
        mine = placed.numa_node in (None, node.id)
        used = min(pages, node.free_hugepages[PAGE]) if mine else 0
        pages -= used
        nodes.append(
            replace(
                node,
                free_cpus=tuple(cpu for cpu in node.free_cpus if cpu not in placed.cpus),
                free_memory_mib=node.free_memory_mib
                - (ordinary if placed.numa_node == node.id else 0),
                free_hugepages={PAGE: node.free_hugepages[PAGE] - used},
            )
        )
    return replace(
        host,
        free_vcpus=host.free_vcpus - request.vcpus,
        free_memory_mib=host.free_memory_mib - ordinary,
        numa=tuple(nodes),
        gpus=tuple(_gpu_after(gpu, placed.assignments) for gpu in host.gpus),
        vm_labels=(*host.vm_labels, request.labels),
    )


def _gpu_after(gpu: GpuSupply, parts: Sequence[Assignment]) -> GpuSupply:
    for part in parts:
        if part.gpu == gpu.id:
            o, counts = part.offer, dict(gpu.available)
            if o.type_id in counts:
                counts[o.type_id] -= 1
            usage = Usage(
                profile=o.profile, framework=o.framework, units=o.units, size_class=o.size_class
            )
            free = tuple(slot for slot in gpu.free_slots if slot not in part.slots)
            gpu = replace(gpu, usages=(*gpu.usages, usage), free_slots=free, available=counts)
    return gpu


def is_legal(fleet: Fleet, placed: Placed) -> bool:
    """The decision satisfies every rule on this supply and takes only what is free."""
    request = placed.request
    host = next(h for h in fleet.hosts if h.name == placed.host)
    gpus = {gpu.id: gpu for gpu in host.gpus}
    wanted = [part for part in request.gpus for _ in range(part.count)]
    parts = [(gpus[a.gpu], p) for a, p in zip(placed.assignments, wanted, strict=True)]
    taken = [(a.gpu, slot) for a in placed.assignments for slot in a.slots]
    free_cpus = {c for n in host.numa if placed.numa_node in (None, n.id) for c in n.free_cpus}
    near = {gpu.numa_node for gpu, _ in parts} <= {placed.numa_node}
    return (
        host_takes(fleet, host, request)
        and room_for(host, request, None)
        and room_for(host, request, placed.numa_node)
        and gpus_hold(request, parts)
        and len(set(taken)) == len(taken)
        and all(slot in gpus[gpu].free_slots for gpu, slot in taken)
        and all(len(a.slots) == a.offer.units for a in placed.assignments)
        and all(a.device == gpus[a.gpu].device for a in placed.assignments)
        and all(
            a.offer.profile == p.profile for a, p in zip(placed.assignments, wanted, strict=True)
        )
        and len(set(placed.cpus)) == (request.vcpus if request.pin_cpus else 0)
        and set(placed.cpus) <= free_cpus
        and (request.numa is not NumaPolicy.REQUIRE or (near and placed.numa_node is not None))
        and (request.numa is not NumaPolicy.NONE or placed.numa_node is None)
    )


def legal_in_order(fleet: Fleet, decisions: Sequence[Decision], order: Sequence[int]) -> bool:
    for index in order:
        decision = decisions[index]
        if isinstance(decision, Placed):
            if not is_legal(fleet, decision):
                return False
            fleet = after(fleet, decision)
    return True


def largest_first(fleet: Fleet, batch: Sequence[VmSpec]) -> list[int]:
    offers = [offer for host in fleet.hosts for gpu in host.gpus for offer in gpu.offers]

    def size(index: int) -> tuple[int, int]:
        parts = [part for part in batch[index].gpus for _ in range(part.count)]
        units = [max((o.units for o in offers if o.profile == p.profile), default=0) for p in parts]
        return -sum(part.profile == "passthrough" for part in parts), -sum(units)

    return sorted(range(len(batch)), key=size)


# --- the properties ---


@settings(max_examples=60, deadline=None)
@given(fleets(), st.lists(requests(), min_size=1, max_size=5), policies)
def test_every_placement_satisfies_every_rule_and_takes_nothing_twice(
    fleet: Fleet, batch: list[VmSpec], policy: PlacementPolicy
) -> None:
    batch = [replace(request, name=f"vm-{n}") for n, request in enumerate(batch)]
    decisions = place(fleet, batch, policy)
    assert [decision.request for decision in decisions] == batch
    least = policy is PlacementPolicy.CAPACITY_FIRST
    orders = (evenly(batch) if least else range(len(batch)), largest_first(fleet, batch))
    assert any(legal_in_order(fleet, decisions, order) for order in orders)
    assert place(fleet, batch, policy) == decisions


@settings(max_examples=120, deadline=None)
@given(fleets(), requests(), policies)
def test_a_request_is_refused_only_when_brute_force_finds_no_way(
    fleet: Fleet, request: VmSpec, policy: PlacementPolicy
) -> None:
    (decision,) = place(fleet, [request], policy)
    possible = any(host_fits(fleet, host, request) for host in fleet.hosts)
    assert isinstance(decision, Placed) == possible


@settings(max_examples=60, deadline=None)
@given(fleets(), requests())
def test_a_refusal_has_exactly_one_reason_per_gpu_or_host(fleet: Fleet, request: VmSpec) -> None:
    (decision,) = place(fleet, [request], BREADTH)
    if isinstance(decision, Placed):
        return
    for host in fleet.hosts:
        said = [reason.gpu for reason in decision.reasons if reason.host == host.name]
        assert said in ([""], [gpu.id for gpu in host.gpus])
    assert all(reason.text and reason.code != FITS for reason in decision.reasons)


@settings(max_examples=60, deadline=None)
@given(fleets(), requests())
def test_explain_has_one_answer_per_gpu_and_agrees_with_place(
    fleet: Fleet, request: VmSpec
) -> None:
    told = explain(fleet, request)
    (decision,) = place(fleet, [request], BREADTH)
    assert any(reason.code == FITS for reason in told) == isinstance(decision, Placed)
    for host in fleet.hosts:
        gpus = [gpu.id for gpu in host.gpus] if request.gpus and host.gpus else [""]
        assert [reason.gpu for reason in told if reason.host == host.name] == gpus


@settings(max_examples=60, deadline=None)
@given(fleets(), requests(parts=(1,)))
def test_a_gpu_that_fits_would_take_a_single_part_by_itself(fleet: Fleet, request: VmSpec) -> None:
    request = replace(request, affinity=replace(request.affinity, together_with={}))
    verdicts = {(r.host, r.gpu): r.code == FITS for r in explain(fleet, request)}
    for host in fleet.hosts:
        for gpu in host.gpus:
            alone = Fleet(hosts=(replace(host, gpus=(gpu,)),))
            fits = isinstance(place(alone, [request], BREADTH)[0], Placed)
            assert verdicts[host.name, gpu.id] == fits


@settings(max_examples=60, deadline=None)
@given(fleets(), requests(), policies)
def test_headroom_is_taken_at_its_word(
    fleet: Fleet, request: VmSpec, policy: PlacementPolicy
) -> None:
    limit = 30
    count = headroom(fleet, request, limit, policy=policy)
    batch = [replace(request, name=f"vm-{n}") for n in range(count + 1)]
    together = [isinstance(d, Placed) for d in place(fleet, batch, policy)]
    assert together[:count] == [True] * count
    assert count == limit or not together[count]
    for copy in batch[:count]:
        (decision,) = place(fleet, [copy], policy)
        assert isinstance(decision, Placed)
        fleet = after(fleet, decision)
    (refused,) = place(fleet, [batch[count]], policy)
    assert count == limit or isinstance(refused, NotPlaced)


def could_go_whole(gpu: GpuSupply) -> bool:
    return not gpu.usages and not gpu.passthrough_blocked


@settings(max_examples=60, deadline=None)
@given(fleets(), requests(parts=(1,)))
def test_breadth_first_takes_a_gpu_with_the_most_free_units_and_depth_first_a_used_full_one(
    fleet: Fleet, request: VmSpec
) -> None:
    request = VmSpec(name="vm", vcpus=1, memory_mib=1024, gpus=request.gpus, numa=NumaPolicy.NONE)
    ways = {
        gpu.id: gpu
        for host in fleet.hosts
        if host_fits(fleet, host, request)
        for parts in arrangements(host, request)
        for gpu, _ in parts
    }
    if not ways:
        return
    (wide,) = place(fleet, [request], BREADTH)
    assert isinstance(wide, Placed)
    most = max(len(gpu.free_slots) for gpu in ways.values())
    widest = ways[wide.assignments[0].gpu]
    assert len(widest.free_slots) == most
    if not all(could_go_whole(gpu) for gpu in ways.values() if len(gpu.free_slots) == most):
        assert not could_go_whole(widest)

    (deep,) = place(fleet, [request], DEPTH)
    assert isinstance(deep, Placed)
    chosen = ways[deep.assignments[0].gpu]
    size = deep.assignments[0].offer.size_class
    used = [gpu for gpu in ways.values() if gpu.usages]
    same = [gpu for gpu in used if any(u.size_class == size for u in gpu.usages)]
    rivals = same or used or list(ways.values())
    if request.gpus[0].profile != "passthrough" and all(g.same_size for g in ways.values()):
        assert chosen in rivals
        assert len(chosen.free_slots) == min(len(gpu.free_slots) for gpu in rivals)
