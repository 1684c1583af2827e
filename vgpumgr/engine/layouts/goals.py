"""Which layout each GPU is meant to have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpumgr import layout
from vgpumgr.engine import supply
from vgpumgr.engine.layouts.made import made_for_vms
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import GpuLayout, LayoutSpec


def meant(view: LedgerView, specs: Sequence[LayoutSpec] | None) -> frozenset[str]:
    """The GPUs that these layouts are for, of hosts that could be read."""
    hosts, unread = {gpu.id: gpu.host for gpu in view.gpus}, unread_hosts(view)
    return frozenset(gpu for gpu in goals_of(view, specs) if hosts[gpu] not in unread)


def goals_of(
    view: LedgerView, specs: Sequence[LayoutSpec] | None
) -> dict[str, tuple[str, GpuLayout]]:
    """The goal of every GPU that the layouts mean; one that is gone from its host has none.

    What a layout leaves alone stays as the one that was applied last declared it.
    """
    there = {gpu.id: gpu for gpu in view.gpus if gpu.state is not GpuState.MISSING}
    known = {each.gpu: (each.layout, each.goal) for each in view.layouts if each.gpu in there}
    if specs is None:
        return {gpu: known[gpu] for gpu in there if gpu in known}
    goals: dict[str, tuple[str, GpuLayout]] = {}
    for spec in specs:
        for host in _hosts_of(view, spec):
            gpus = [gpu for gpu in there.values() if gpu.host == host.name]
            for gpu, goal in layout.goals(spec, host, gpus).items():
                goals[gpu] = (spec.name, goal)
    made = made_for_vms(view)
    for gpu in goals.keys() & known.keys():
        name, goal = goals[gpu]
        _, before = known[gpu]
        seen = there[gpu].facts
        goals[gpu] = (name, layout.standing(seen, goal, before, made.get(gpu, frozenset())))
    return goals


def hosts_meant(view: LedgerView, specs: Sequence[LayoutSpec] | None) -> frozenset[str]:
    """The hosts that the layouts are for, whatever GPUs are there."""
    if specs is None:
        known = {record.gpu for record in view.layouts}
        return frozenset(gpu.host for gpu in view.gpus if gpu.id in known)
    return frozenset(host.name for spec in specs for host in _hosts_of(view, spec))


def missing(view: LedgerView) -> list[GpuRecord]:
    """The GPUs that have a layout and are gone from their host."""
    known = {record.gpu for record in view.layouts}
    return [gpu for gpu in view.gpus if gpu.id in known and gpu.state is GpuState.MISSING]


def _hosts_of(view: LedgerView, spec: LayoutSpec) -> Iterator[HostRecord]:
    require_known(view, spec.hosts)
    for host in view.hosts:
        named = host.name in spec.hosts
        labelled = bool(spec.host_labels) and all(
            host.labels.get(key) == value for key, value in spec.host_labels.items()
        )
        if named or labelled:
            yield host


def require_known(view: LedgerView, names: Sequence[str]) -> None:
    """NotFound for a host that is not enrolled."""
    known = [host.name for host in view.hosts]
    for name in names:
        if name not in known:
            raise NotFound(
                f"there is no host {name}",
                why=f"enrolled: {', '.join(known) or 'none'}",
                next="vgpumgr host list",
            )


def unread_hosts(view: LedgerView) -> dict[str, str]:
    """Hosts whose last facts are not what is there now, and why: nothing follows from those."""
    found = {host.name: supply.unread(host) for host in view.hosts}
    return {name: why for name, why in found.items() if why}
