"""Automatic layouts: empty GPUs partitioned for VMs that fit nowhere as GPUs are now. Pure.

A host with ``layout: auto`` leaves its GPUs to the fleet where no Layout declares how they are
partitioned. VMs go to GPUs as they are where they can; for the rest every GPU that surely nobody
uses is offered as it would be with another layout, and GPUs that get a VM are partitioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from vgpumgr import catalog
from vgpumgr import gpu as frameworks
from vgpumgr.engine.inventory.host_supply import (
    LATELY_REFUSED,
    ExcludedSupply,
    build_fleet,
    host_contents,
)
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.unused_gpus import in_use
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.hypothetical_layouts import (
    answers,
    goals,
    partitioned,
    with_layouts,
)
from vgpumgr.model.gpu import Framework, GpuRecord
from vgpumgr.model.host import AUTO, HostFacts
from vgpumgr.model.layout import GpuLayout
from vgpumgr.model.placement import Decision, NotPlaced, Placed
from vgpumgr.model.supply import Fleet, HostSupply
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.placement.defrag.fleet_without import one_by_one

Layouts = Mapping[str, GpuLayout]
"""By GPU's id."""

# So many GPUs of a board are looked at together at least.
_FEWEST = 16


def layouts_of(placed: Iterable[Placed]) -> dict[str, GpuLayout]:
    """The GPUs that are partitioned for these VMs, and how."""
    parts = (part for each in placed for part in each.assignments)
    return {part.gpu: part.layout for part in parts if part.layout is not None}


def with_layouts_of(view: LedgerView, placed: Iterable[Placed]) -> LedgerView:
    """The view with the GPUs partitioned that these VMs need so."""
    return with_layouts(view, layouts_of(placed))


def on_partitioned(placed: Placed, layouts: Layouts) -> Placed:
    """The place, with the layouts that its GPUs are to have before."""
    parts = (replace(part, layout=layouts.get(part.gpu)) for part in placed.assignments)
    return replace(placed, assignments=tuple(parts))


def place_with_layouts(
    view: LedgerView,
    found: Sequence[Decision],
    place: PlaceFunction,
    left: ExcludedSupply = LATELY_REFUSED,
) -> tuple[Decision, ...]:
    """The decisions, with places for refused VMs where empty GPUs are partitioned for them first.

    What has a place keeps it, but for VMs that asked for memory and would get a whole GPU with
    twice as much. Places in ``left`` are never used.
    """
    if all(host.layout != AUTO for host in view.hosts):
        return tuple(found)
    refused = [each for each in found if isinstance(each, NotPlaced) and each.request.gpus]
    large = [each for each in found if isinstance(each, Placed) and _is_large(each)]
    if not (refused or large):
        return tuple(found)
    fleet = build_fleet(view, left)
    if not (empty := partitionable(view, fleet)):
        return tuple(found)

    def searched(moving: Sequence[Decision], *, mixed: bool = False) -> _Search:
        names = {each.request.name for each in moving}
        taken = [e for e in found if isinstance(e, Placed) and e.request.name not in names]
        search = _Search(view, fleet, place, left, empty, taken, mixed=mixed)
        for group in _alike(each.request for each in moving):
            search.add(group)
        return search

    best = searched([*refused, *large])
    if any(each.request.name not in best.placed for each in large):
        best, large = searched(refused), []
    if best.may_mix and len(best.placed) < len(refused) + len(large):
        other = searched([*refused, *large], mixed=True)
        kept = all(each.request.name in other.placed for each in large)
        best = other if kept and len(other.placed) > len(best.placed) else best
    return tuple(best.decision(each) for each in found)


def _is_large(placed: Placed) -> bool:
    """Has it a whole GPU with twice the memory that it asked for?"""
    asked = [part for part in placed.request.gpus for _ in range(part.count)]
    return any(
        part.offer.framework is Framework.PASSTHROUGH
        and not want.profile
        and part.offer.memory_mib >= 2 * (want.memory_mib or 0)
        for want, part in zip(asked, placed.assignments, strict=True)
    )


def partitionable(view: LedgerView, fleet: Fleet) -> dict[str, GpuRecord]:
    """The GPUs, by id, that may be partitioned for a VM."""
    open_ = {host.name: host for host in fleet.hosts if not host.blocked}
    hosts = tuple(h for h in view.hosts if h.layout == AUTO and h.name in open_)
    names = {host.name for host in hosts}
    part = _part(view, names)
    contents = host_contents(part)
    supplies = {gpu.id: gpu for name in names for gpu in open_[name].gpus}
    return {
        gpu.id: gpu
        for gpu in part.gpus
        if _is_known(gpu)
        and gpu.id in supplies
        and not in_use(gpu, supplies[gpu.id], contents[gpu.host])
    }


def marked(view: LedgerView, fleet: Fleet) -> Fleet:
    """The supply, in which GPUs are marked that may be partitioned for a VM: reasons say so."""
    if all(host.layout != AUTO for host in view.hosts):
        return fleet
    free = partitionable(view, fleet)

    def known(host: HostSupply) -> HostSupply:
        gpus = (replace(gpu, automatic=gpu.id in free) for gpu in host.gpus)
        return replace(host, gpus=tuple(gpus))

    return Fleet(hosts=tuple(map(known, fleet.hosts)))


def _is_known(gpu: GpuRecord) -> bool:
    """A board whose vGPUs are made on VFs, with all that a layout of it depends on."""
    board, facts = catalog.board(gpu.facts.model), gpu.facts
    if board is None or board.host_mode != "sriov-vf":
        return False
    return facts.mig is not None or not board.mig_capable


def _part(view: LedgerView, names: set[str]) -> LedgerView:
    """The view of these hosts alone."""
    return replace(
        view,
        hosts=tuple(host for host in view.hosts if host.name in names),
        gpus=tuple(gpu for gpu in view.gpus if gpu.host in names),
        vms=tuple(
            vm
            for vm in view.vms
            if vm.host in names or (vm.moving_to is not None and vm.moving_to.host in names)
        ),
        allocations=tuple(each for each in view.allocations if each.host in names),
        layouts=tuple(each for each in view.layouts if each.host in names),
    )


def _alike(requests: Iterable[VmSpec]) -> Iterable[list[VmSpec]]:
    """Requests with the same GPU parts, in the order in which these come first."""
    groups: dict[tuple[GpuRequest, ...], list[VmSpec]] = {}
    for each in requests:
        groups.setdefault(each.gpus, []).append(each)
    return groups.values()


@dataclass
class _Search:
    """The places found so far, and the layouts that they need.

    ``mixed``: of two layouts that differ in mixed-size mode alone that with the mode comes first.
    ``may_mix``: a GPU was partitioned that could have the mode and has not.
    """

    view: LedgerView
    fleet: Fleet
    place: PlaceFunction
    left: ExcludedSupply
    empty: Mapping[str, GpuRecord]
    taken: list[Placed]
    mixed: bool
    chosen: dict[str, GpuLayout] = field(default_factory=dict)
    placed: dict[str, Placed] = field(default_factory=dict)
    refused: dict[str, NotPlaced] = field(default_factory=dict)
    known: dict[tuple[object, ...], tuple[GpuLayout | None, ...]] = field(default_factory=dict)

    @property
    def may_mix(self) -> bool:
        """Was a GPU partitioned that could have mixed-size mode and has not?"""
        return any(
            layout.vfs and not (layout.mig or layout.mixed_size) and _mixes(self.empty[gpu])
            for gpu, layout in self.chosen.items()
        )

    def decision(self, before: Decision) -> Decision:
        """The decision for a request, as found here or as it was."""
        name = before.request.name
        return self.placed.get(name) or self.refused.get(name) or before

    def add(self, group: Sequence[VmSpec]) -> None:
        """Place VMs with the same GPU parts: on what is partitioned already, then on more."""
        left = self._placed_on({}, group) if self.chosen else list(group)
        for offered in self._offered(group):
            if not left:
                return
            left = self._placed_on(offered, left)

    def _placed_on(self, offered: Layouts, requests: Sequence[VmSpec]) -> list[VmSpec]:
        """The requests that find no place where these GPUs are partitioned, too."""
        fleet = self._fleet({**self.chosen, **offered})
        decided = self.place(fleet, requests, taken=list(one_by_one(fleet, self.taken)))
        misfits = []
        for each in decided:
            if isinstance(each, Placed):
                self._take(each, offered)
            else:
                misfits.append(each.request)
                if offered:
                    self.refused.setdefault(each.request.name, each)
        return misfits

    def _take(self, placed: Placed, offered: Layouts) -> None:
        used = {part.gpu for part in placed.assignments}
        self.chosen |= {gpu: layout for gpu, layout in offered.items() if gpu in used}
        placed = on_partitioned(placed, self.chosen)
        self.taken.append(placed)
        self.placed[placed.request.name] = placed

    def _offered(self, group: Sequence[VmSpec]) -> Iterator[Layouts]:
        """Ways to partition GPUs that are still empty, the best first, of each way more and more
        GPUs. For parts that one GPU cannot make together, GPUs are partitioned by turns, or left as
        they are.
        """
        parts = group[0].gpus
        step = int(len(set(parts)) > 1)
        waves = list(self._waves(group))
        ways = {gpu: self._ways(self.empty[gpu], parts) for wave in waves for gpu in wave}
        for number in range(max(map(len, ways.values()), default=0)):
            for wave in waves:
                used = {part.gpu for each in self.taken for part in each.assignments}
                found = [(gpu, ways[gpu]) for gpu in wave if gpu not in used]
                turns = {
                    gpu: those[(number + at * step) % len(those)]
                    for at, (gpu, those) in enumerate(found)
                    if (step and those) or number < len(those)
                }
                if offered := {gpu: layout for gpu, layout in turns.items() if layout is not None}:
                    yield offered

    def _waves(self, group: Sequence[VmSpec]) -> Iterator[list[str]]:
        """The empty GPUs (ids) of hosts that can hold one of the VMs at all, in the order of the
        fleet: of each board twice as many as the VMs have parts, then always four times as many.
        """
        left: dict[str, list[str]] = {}
        for gpu, record in self.empty.items():
            if any(_holds(self._supplies[record.host], each) for each in group):
                left.setdefault(record.facts.model, []).append(gpu)
        count = max(_FEWEST, 2 * sum(part.count for each in group for part in each.gpus))
        while any(left.values()):
            yield [gpu for gpus in left.values() for gpu in gpus[:count]]
            left = {model: gpus[count:] for model, gpus in left.items()}
            count *= 4

    def _ways(self, gpu: GpuRecord, parts: Sequence[GpuRequest]) -> tuple[GpuLayout | None, ...]:
        """The layouts with which it makes one of the parts, None for it as it is where several are
        asked for; worked out once per kind of GPU.
        """
        facts, host = gpu.facts, self._hosts[gpu.host]
        mig = facts.mig is not None and facts.mig.enabled
        shape = (facts.model, len(facts.vfs), mig, facts.mixed_size, facts.sriov_total)
        key = (*shape, facts.vf_address(0) == "", host.versions.kernel, host.fabric is None, *parts)
        if key not in self.known:
            found = [goal for goal in goals(facts) if _helps(gpu, goal, host, parts)]
            found.sort(key=lambda goal: bool(goal.mixed_size) != self.mixed)
            as_it_is = len(set(parts)) > 1 and _makes(gpu, parts)
            self.known[key] = (None, *found) if as_it_is else tuple(found)
        return self.known[key]

    @cached_property
    def _supplies(self) -> Mapping[str, HostSupply]:
        return {host.name: host for host in self.fleet.hosts}

    @cached_property
    def _hosts(self) -> Mapping[str, HostFacts]:
        return {host.name: host.facts for host in self.view.hosts if host.facts is not None}

    def _fleet(self, layouts: Layouts) -> Fleet:
        """The supply with these GPUs partitioned; only their hosts are worked out anew."""
        names = {self.empty[gpu].host for gpu in layouts}
        part = with_layouts(_part(self.view, names), layouts)
        anew = {host.name: host for host in build_fleet(part, self.left).hosts}
        return Fleet(hosts=tuple(anew.get(host.name, host) for host in self.fleet.hosts))


def _holds(host: HostSupply, request: VmSpec) -> bool:
    """Has the host the vCPUs and the memory, and may the VM be there?"""
    named = request.affinity.hosts
    fits = request.vcpus <= host.free_vcpus and request.memory_mib <= host.free_memory_mib
    return (fits or request.hugepage_kib is not None) and (not named or host.name in named)


def _mixes(gpu: GpuRecord) -> bool:
    board = catalog.board(gpu.facts.model)
    return board is not None and board.mixed_size


def _helps(gpu: GpuRecord, goal: GpuLayout, host: HostFacts, parts: Sequence[GpuRequest]) -> bool:
    """Would it make one of the parts, on VFs whose addresses are known, and without a reset of a
    GPU that NVSwitch partitions have?
    """
    other = partitioned(gpu, goal, host.versions.kernel)
    if other is None or not all(vf.address for vf in other.facts.vfs):
        return False
    if host.fabric is not None and other.facts.mig != gpu.facts.mig:
        return False
    return _makes(other, parts)


def _makes(gpu: GpuRecord, parts: Sequence[GpuRequest]) -> bool:
    """Does it make one of the parts? It is given whole without VFs and MIG mode alone."""
    facts = gpu.facts
    cut = bool(facts.vfs or (facts.mig is not None and facts.mig.enabled))
    return any(
        answers(offer, part)
        for offer in frameworks.offers(facts)
        for part in parts
        if not (cut and offer.framework is Framework.PASSTHROUGH)
    )
