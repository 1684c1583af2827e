"""Fleets in which nothing differs, as values: made once on a simulated host, then changed by hand.

The values are what the engine reads from its ledger and its hosts, so a case changes what a real
look would show, and nothing else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.drift.drift_survey import compare, look
from vgpumgr.engine.drift.host_comparison import DomainReads, OperationsInProgress
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.drift import Drift
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostFacts, UnknownPart
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.model.vm import GpuRequest, VmRecord, VmSpec
from vgpumgr.model.vm_devices import DiskSpec, NicSpec

DISK = DiskSpec(size_bytes=1 << 30)
NIC = NicSpec(network="default")
STRANGER = DomainFacts(name="stranger", uuid="0" * 8, state=DomainState.RUNNING)


@dataclass(frozen=True)
class Fleet:
    """One host, h1, with one VM, web."""

    view: LedgerView
    seen: Mapping[str, DomainReads]
    work: OperationsInProgress = field(default_factory=OperationsInProgress)

    @property
    def facts(self) -> HostFacts:
        return self.seen["h1"].facts

    @property
    def gpu(self) -> GpuFacts:
        return self.facts.gpus[0]

    @property
    def domain(self) -> DomainFacts:
        return self.facts.domains[0]

    @property
    def vm(self) -> VmRecord:
        return self.view.vms[0]

    @property
    def allocation(self) -> Allocation:
        return self.view.allocations[0]

    def drifts(self) -> tuple[Drift, ...]:
        return compare(self.view, self.seen, self.work)

    # -- changed ------------------------------------------------------------------------------

    def with_view(self, **changes: Any) -> Fleet:
        return replace(self, view=replace(self.view, **changes))

    def with_seen(self, **changes: Any) -> Fleet:
        return replace(self, seen={"h1": replace(self.seen["h1"], **changes)})

    def with_facts(self, **changes: Any) -> Fleet:
        return self.with_seen(facts=replace(self.facts, **changes))

    def with_gpu(self, **changes: Any) -> Fleet:
        """The GPU as the probe shows it, which the ledger keeps."""
        shown = replace(self.gpu, **changes)
        record = replace(self.view.gpus[0], facts=shown)
        others = (record, *self.view.gpus[1:])
        return self.with_facts(gpus=(shown, *self.facts.gpus[1:])).with_view(gpus=others)

    def with_domain(self, **changes: Any) -> Fleet:
        return self.with_facts(domains=(replace(self.domain, **changes),))

    def with_vm(self, **changes: Any) -> Fleet:
        return self.with_view(vms=(replace(self.vm, **changes),))

    def with_stranger(self, *devices: str) -> Fleet:
        return self.with_facts(domains=(*self.facts.domains, replace(STRANGER, devices=devices)))

    def unread(self, *parts: str) -> Fleet:
        unknown = tuple(UnknownPart(part=part, why="EIO") for part in parts)
        return self.with_facts(unknown=unknown)

    def with_first_vf(self, change: Callable[[Any], Any]) -> Fleet:
        first, *others = self.gpu.vfs
        return self.with_gpu(vfs=(change(first), *others))


def _fleet(where: SimHost, spec: VmSpec, layout: GpuLayout | None = None) -> Fleet:
    with tempfile.TemporaryDirectory() as folder:
        world = SimWorld(Path(folder), where)
        try:
            if layout is not None:
                world.cut(layout)
            while where.fabric and world.facts().fabric is None:
                world.engine.refresh()
            world.apply(spec)
            facts = world.engine.refresh().facts["h1"]
            view = world.engine.view()
            view = replace(view, caps=tuple(view.caps))  # the ledger goes with the world
            reached = world.hosts.open(world.ledger.host("h1"))
            return Fleet(view, {"h1": look(reached, facts, view.vms)})
        finally:
            world.close()


@cache
def mdev() -> Fleet:
    """A T4 with one vGPU."""
    return _fleet(host("T4"), vm("web", "T4-4Q", disks=(DISK,), nics=(NIC,)))


@cache
def vendor_vf() -> Fleet:
    """An L40S in mixed-size mode with one vGPU."""
    return _fleet(host("L40S"), vm("web", "L40S-8Q"), GpuLayout(vfs=VFS_MAX, mixed_size=True))


@cache
def instance() -> Fleet:
    """An A100 with one MIG-backed vGPU."""
    cut = GpuLayout(mig=True, vfs=VFS_MAX, instances=())
    return _fleet(host("A100-PCIE-80GB"), vm("web", "3g.40gb"), cut)


@cache
def plain_vf() -> Fleet:
    """A Flex 170 with a VF given away."""
    return _fleet(host("FLEX-170"), vm("web", "FLEX-170-1of5"), GpuLayout(vfs=5))


@cache
def partition() -> Fleet:
    """Two whole GPUs of an NVSwitch host."""
    hgx = host(*("H100-SXM5-80GB",) * 8, fabric="HGX-H100-8")
    return _fleet(hgx, vm("web", gpus=(GpuRequest(profile="passthrough", count=2),)))


FLEETS = {
    "mdev": mdev,
    "vendor VF": vendor_vf,
    "instance": instance,
    "plain VF": plain_vf,
    "partition": partition,
}
