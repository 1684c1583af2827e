"""Alternatives for a refused request: hosts as one change each would make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

from vgpumgr import gpu as frameworks
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.hypothetical_layouts import answers, goals, in_words, partitioned
from vgpumgr.engine.whatif.hypothetical_hosts import by_host, emptied, view_with_shelved
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.model.supply import Fleet, HostSupply
from vgpumgr.model.vm import VmRecord, VmSpec, VmState
from vgpumgr.placement.whatif_suggestions import Alternative, ChangeKind

# More would take too long: the smallest VMs come first.
_MOST_VMS = 300
# Hosts whose empty GPUs are looked at.
_MOST_HOSTS = 300


class FleetChanges:
    """Changes of a fleet that would make a place for one request."""

    def __init__(self, view: LedgerView, fleet: Fleet, request: VmSpec) -> None:
        self._view = view
        self._fleet = fleet
        self._parts = request.gpus
        self._useful: dict[tuple[object, ...], bool] = {}

    def all(self) -> Sequence[Iterator[Alternative]]:
        """One iterator per kind; what is not asked for is not worked out."""
        return self._uncordoned(), self._laid_out(), self._less_one_vm(), self._one_more()

    def _uncordoned(self) -> Iterator[Alternative]:
        for host in self._view.hosts:
            if host.cordoned and not (host.draining or host.maintenance or host.evacuated):
                yield Alternative(
                    kind=ChangeKind.UNCORDON,
                    text="with its cordon lifted",
                    next=partial("vgpumgr host uncordon {}".format, host.name),
                    host=_supply(replace(self._of(host), hosts=(replace(host, cordoned=False),))),
                )

    def _laid_out(self) -> Iterator[Alternative]:
        """The fewest empty GPUs of a model partitioned otherwise: one, or as many as parts."""
        parts = sum(part.count for part in self._parts)
        for host in self._open[:_MOST_HOSTS]:
            empty = self._empty_gpus(host)
            for model in dict.fromkeys(gpu.facts.model for gpu in empty):
                alike = [gpu for gpu in empty if gpu.facts.model == model]
                for count in sorted({1, min(len(alike), max(1, parts))}):
                    yield from self._partitioned(host, alike[:count])

    def _partitioned(self, host: HostRecord, gpus: Sequence[GpuRecord]) -> Iterator[Alternative]:
        view = self._of(host)
        kernel = host.facts.versions.kernel if host.facts else ""
        for goal in goals(gpus[0].facts):
            if not self._helps(gpus[0], goal, kernel):
                continue
            changed = {gpu.id: other for gpu in gpus if (other := partitioned(gpu, goal, kernel))}
            if len(changed) < len(gpus):
                continue
            records = tuple(changed.get(gpu.id, gpu) for gpu in view.gpus)
            yield Alternative(
                kind=ChangeKind.LAYOUT,
                text=_layout_text(gpus, goal),
                next=partial(_layout_yaml, host.name, gpus, goal),
                host=_supply(replace(view, gpus=records)),
            )

    def _helps(self, gpu: GpuRecord, goal: GpuLayout, kernel: str) -> bool:
        """Would such a GPU then make any of the parts? Looked at once per model and state."""
        facts = gpu.facts
        mig = facts.mig is not None and facts.mig.enabled
        key = facts.model, len(facts.vfs), mig, facts.mixed_size, goal, kernel
        if key not in self._useful:
            other = partitioned(gpu, goal, kernel)
            offers = frameworks.offers(other.facts) if other else ()
            self._useful[key] = any(answers(o, part) for o in offers for part in self._parts)
        return self._useful[key]

    def _less_one_vm(self) -> Iterator[Alternative]:
        names = {host.name for host in self._open}
        here = [vm for vm in self._view.vms if vm.host in names and _can_stop(vm)]
        for vm in sorted(here, key=self._size)[:_MOST_VMS]:
            view = self._of(next(host for host in self._open if host.name == vm.host))
            yield Alternative(
                kind=ChangeKind.STOP,
                text=f"with VM {vm.name} stopped",
                next=partial("vgpumgr vm stop {} --release-gpu".format, vm.name),
                host=_supply(view_with_shelved(view, vm)),
                stopped=vm.spec,
            )

    def _one_more(self) -> Iterator[Alternative]:
        """One like each kind of host there is, empty."""
        seen: set[tuple[object, ...]] = set()
        for host in self._view.hosts:
            if host.facts is None:
                continue
            view = self._of(host)
            kind = (*sorted(gpu.facts.model for gpu in view.gpus), host.facts.cpus,
                    host.facts.memory_mib, *sorted(host.labels.items()))  # fmt: skip
            if kind in seen:
                continue
            seen.add(kind)
            yield Alternative(
                kind=ChangeKind.HOST,
                text=f"with one more host like {host.name}",
                host=replace(_supply(emptied(view)), name=""),
            )

    @cached_property
    def _open(self) -> list[HostRecord]:
        closed = {host.name for host in self._fleet.hosts if host.blocked}
        return [host for host in self._view.hosts if host.name not in closed]

    def _empty_gpus(self, host: HostRecord) -> list[GpuRecord]:
        supply = next(each for each in self._fleet.hosts if each.name == host.name)
        empty = {gpu.id for gpu in supply.gpus if not gpu.usages and not gpu.blocked}
        return [
            gpu for gpu in self._of(host).gpus if gpu.id in empty and gpu.state is GpuState.HEALTHY
        ]

    def _size(self, vm: VmRecord) -> tuple[int, int, str]:
        return self._held.get(vm.id, 0), vm.spec.vcpus, vm.name

    @cached_property
    def _held(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for each in self._view.allocations:
            found[each.vm_id] = found.get(each.vm_id, 0) + len(each.slots)
        return found

    def _of(self, host: HostRecord) -> LedgerView:
        """The part of the view that is about one host."""
        return self._by_host[host.name]

    @cached_property
    def _by_host(self) -> dict[str, LedgerView]:
        return by_host(self._view)


def _can_stop(vm: VmRecord) -> bool:
    """An adopted one gives nothing back: its definition is not ours to write."""
    return vm.state is VmState.ACTIVE and not vm.definition


def _supply(view: LedgerView) -> HostSupply:
    """The supply of a view of one host."""
    name = view.hosts[0].name
    return next(host for host in build_fleet(view).hosts if host.name == name)


def _layout(host: str, gpus: Sequence[GpuRecord], goal: GpuLayout) -> dict[str, object]:
    from vgpumgr.spec import layout_document

    rule = LayoutRule(layout=goal, devices=tuple(gpu.facts.device for gpu in gpus))
    return layout_document(LayoutSpec(name="room", hosts=(host,), rules=(rule,)))


def _layout_text(gpus: Sequence[GpuRecord], goal: GpuLayout) -> str:
    count, model = len(gpus), gpus[0].facts.model
    which = f"{model} {gpus[0].facts.device}" if count == 1 else f"{count} × {model}"
    return f"with a layout for {which} ({in_words(goal)})"


def _layout_yaml(host: str, gpus: Sequence[GpuRecord], goal: GpuLayout) -> str:
    import yaml  # with the schema of all documents: a fifth of what importing the engine costs

    return str(yaml.safe_dump(_layout(host, gpus, goal), sort_keys=False)).rstrip()
