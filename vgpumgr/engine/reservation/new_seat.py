"""A VM that gets a new seat on its host: other GPU parts and CPUs, the same disks and MACs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.domain_plan import domain_xml
from vgpumgr.engine.reservation.vm_creation import VmSites, allocate, device_steps, release_steps
from vgpumgr.engine.steps.domain_steps import RedefineDomain
from vgpumgr.engine.steps.move_steps import (
    STOP_TIMEOUT_S,
    RedefineReseated,
    StartReseated,
    StopToMove,
)
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import Allocation, VmPlace, VmRecord, VmSpec, VmState

# Always cold: libvirt migrates between hosts alone. The new devices are made first; the old
# ones go when the VM has the new ones for good.


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSeat:
    """A VM, the place that it gets on its host, and whether it ``runs`` now and is to again.
    ``spec`` is what it is to be there; None: what it is.
    """

    vm: VmRecord
    placed: Placed
    runs: bool
    spec: VmSpec | None = None

    @property
    def there(self) -> VmRecord:
        """The VM in its new seat."""
        placed = self.placed
        return replace(
            self.vm,
            spec=self.spec or self.vm.spec,
            numa_node=placed.numa_node,
            cpus=placed.cpus,
            generation=self.vm.generation + 1,
        )

    @property
    def moving(self) -> VmRecord:
        """The VM while it gets it."""
        placed = self.placed
        to = VmPlace(
            host=self.vm.host, numa_node=placed.numa_node, cpus=placed.cpus, spec=self.spec
        )
        return replace(self.vm, state=VmState.MIGRATING, moving_to=to)


def seat_allocations(
    wanted: NewSeat, sites: VmSites, opening: OperationOpening
) -> tuple[Allocation, ...]:
    """What the VM takes in addition to what it holds."""
    placed, site = wanted.placed, sites.site(wanted.vm.host)
    return tuple(allocate(part, placed, wanted.vm.id, site, opening) for part in placed.assignments)


def seat_steps(wanted: NewSeat, new: tuple[Allocation, ...], sites: VmSites) -> Iterator[Step]:
    """Off, its new devices made, defined with them, started, and what it had released."""
    vm, site = wanted.vm, sites.site(wanted.vm.host)
    if wanted.runs:
        yield StopToMove(name=vm.name, vm_id=vm.id, timeout_s=STOP_TIMEOUT_S)
    yield from device_steps(new, site.modules)
    there = wanted.there
    before, after = site.autostarts(vm.spec), site.autostarts(there.spec)
    redefine = RedefineDomain if wanted.runs else RedefineReseated
    yield redefine(
        name=vm.name,
        vm_id=vm.id,
        xml=domain_xml(there, new, site),
        old_xml=sites.definition(vm),
        autostart=after,
        old_autostart=None if before == after else before,
    )
    if wanted.runs:
        yield StartReseated(name=vm.name, vm_id=vm.id)
    yield from release_steps(sites.allocations(vm))
