"""What every list of cases stands on: a host, what is done there by hand, and a case's name.

Cases know a host by its port only, so the same ones run on simulated and on real hosts. Where
the two differ, the simulation is wrong.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import pytest

from vgpumgr import domainxml
from vgpumgr.model.domain import DomainPlan, DomainState, Hostdev, Ownership
from vgpumgr.model.errors import HostRefused, InUse, NotFound
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import ClaimFacts, HostFacts
from vgpumgr.model.ports import Host

PCI = "/sys/bus/pci"
PREFIX = "contract-"
OWNER = "allocation-"

# Statuses of NVIDIA's resource manager, as the kernel's log tells them (nvstatuscodes.h).
NOT_SUPPORTED, INVALID_OPERATION, INSUFFICIENT_RESOURCES = 0x56, 0x38, 0x1A

_RELEASE = {
    "mdev": ("mdev_remove", "uuid", "uuid"),
    "vgpu": ("vgpu_release", "vf", "vf"),
    "vfio": ("vfio_release", "address", "address"),
    "fabric": ("fabric_deactivate", "partition", "partition"),
    "layout": ("layout_forget", "gpu", "gpu"),
}


class Machine(Protocol):
    """The host's own root shell: what is done there behind the helper's back."""

    def read(self, path: str) -> str:
        """A file's text; OSError with the kernel's errno."""

    def write(self, path: str, text: str) -> None:
        """One write to a sysfs file; OSError with the kernel's errno."""

    def exists(self, path: str) -> bool:
        """Whether the path is there, links followed."""

    def target(self, path: str) -> str:
        """The name of what a link leads to; empty where there is no link."""

    def run(self, *argv: str) -> tuple[int, str]:
        """Exit status and output of a program."""

    def log(self) -> list[str]:
        """The kernel's log since boot."""

    def wait(self, seconds: float) -> None:
        """Let time pass on the host."""


class Faults(Protocol):
    """What only some hosts can be made to suffer: the power is cut, a program holds a GPU."""

    def reboot(self) -> None:
        """Off and on again; no VM starts by itself."""

    def client(self, gpu: str, name: str) -> AbstractContextManager[None]:
        """A program of that name has ``/dev/nvidia<n>`` open."""

    def unbind_fails(self, gpu: str, times: int) -> None:
        """The next ``times`` runs of sriov-manage cannot obtain the unbindLock."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A host, and what may be used on it: more of that in the benches of each kind.

    ``faults`` is None on a host that must not suffer any; cases with faults are lists of their own.
    """

    host: Host
    machine: Machine
    faults: Faults | None = None

    @property
    def may_suffer(self) -> Faults:
        """The faults, for the lists that need them."""
        assert self.faults is not None, "this list is for benches that can be made to suffer"
        return self.faults

    def call(self, verb: str, **args: object) -> dict[str, object]:
        """One verb of the helper."""
        return self.host.helper.call(verb, args)

    def facts(self, device: str) -> GpuFacts:
        """One GPU as a fresh probe shows it."""
        return next(each for each in self.host.probe().gpus if each.device == device)

    def mates(self, address: str) -> list[str]:
        """The other functions of a GPU's IOMMU group."""
        return [each for each in self.facts(address).group_devices if each != address]

    def bind(self, address: str, *mates: str, owner: str = "one") -> dict[str, object]:
        """Have the helper give a function to vfio-pci, together with these."""
        args = {"address": address, "with": list(mates), "claim": claim(owner)}
        return self.call("vfio_bind", **args)

    def unbind(self, address: str, owner: str = "one") -> dict[str, object]:
        """Have the helper give a function back to its driver."""
        return self.call("vfio_release", address=address, claim=claim(owner))

    def keep(self, gpu: str, **parts: object) -> str:
        """Have the host keep a layout of the GPU for its boots; the claim's unit."""
        self.call("layout_claim", gpu=gpu, claim=claim("layout"), **parts)
        return f"layout-{gpu}"

    @cached_property
    def _first_seen(self) -> HostFacts:
        """For what does not change: versions, KVM."""
        return self.host.probe()

    @contextmanager
    def running(self, name: str, *devices: Hostdev) -> Iterator[str]:
        """A domain with the devices, running; off and forgotten afterwards."""
        name = PREFIX + name
        self.host.domains.define(domain(self._first_seen, name, devices))
        self.host.domains.start(name)
        yield name
        self.host.domains.destroy(name)
        self.host.domains.undefine(name)

    def refused_start(self, name: str, *devices: Hostdev) -> Exception:
        """The error of starting a domain with the devices; it is off and forgotten."""
        name = PREFIX + name
        self.host.domains.define(domain(self._first_seen, name, devices))
        try:
            with pytest.raises((HostRefused, InUse, NotFound)) as caught:
                self.host.domains.start(name)
            found = self.host.domains.look(name)
            assert found is not None
            assert found.state is DomainState.SHUTOFF
        finally:
            self.host.domains.destroy(name)
            self.host.domains.undefine(name)
        return caught.value

    @contextmanager
    def logged(self, code: int) -> Iterator[None]:
        """EIO, and this status of the resource manager in the kernel's log."""
        before = len(self.machine.log())
        with refused("EIO"):
            yield
        said = self.machine.log()[before:]
        assert any(f"vgpu create request: {code:#x}" in line for line in said), said

    @property
    def claims(self) -> tuple[ClaimFacts, ...]:
        """The cases' own; a host may keep others', of its layout."""
        return tuple(each for each in self.host.probe().claims if each.allocation.startswith(OWNER))

    def clean(self) -> None:
        """Take away what a failed case left."""
        for each in self.host.domains.list():
            if each.name.startswith(PREFIX):
                self.host.domains.destroy(each.name)
                self.host.domains.undefine(each.name)
        for held in self.claims:
            verb, argument, field = _RELEASE[str(held.wanted["kind"])]
            self.call(verb, **{argument: held.wanted[field]}, claim=_presented(held))


B = TypeVar("B", bound=Bench)
B_contra = TypeVar("B_contra", bound=Bench, contravariant=True)


class Case(Protocol[B_contra]):
    """A function of a bench that raises AssertionError."""

    @property
    def __name__(self) -> str:
        """What it says of every host."""

    def __call__(self, bench: B_contra, /) -> None:
        """Run it; the host is left as it was, except where a list says otherwise."""


class Cases(Generic[B]):
    """One list of cases for benches of a kind.

    ``paragraphs`` are those of docs/driver-behaviour.md that each case holds, by its name.
    """

    def __init__(self) -> None:
        self._cases: list[Case[B]] = []
        self.paragraphs: dict[str, tuple[str, ...]] = {}

    def case(self, *paragraphs: str) -> Callable[[Case[B]], Case[B]]:
        """Put a function on the list."""

        def put(case: Case[B]) -> Case[B]:
            assert case.__name__ not in self.paragraphs, f"two cases {case.__name__}"
            self._cases.append(case)
            self.paragraphs[case.__name__] = paragraphs
            return case

        return put

    def __iter__(self) -> Iterator[Case[B]]:
        return iter(self._cases)


@contextmanager
def refused(name: str) -> Iterator[None]:
    """The kernel answers with this errno: ``EINVAL``."""
    with pytest.raises(OSError) as caught:
        yield
    assert errno.errorcode.get(caught.value.errno or 0) == name, caught.value


def claim(owner: str = "one") -> dict[str, object]:
    """What a caller presents."""
    return {"allocation": f"{OWNER}{owner}", "generation": 1, "vm": owner}


def new_uuid() -> str:
    return str(uuid.uuid4())


def domain(facts: HostFacts, name: str, devices: tuple[Hostdev, ...]) -> str:
    """The XML of a small domain with the devices."""
    plan = DomainPlan(
        name=name,
        uuid=new_uuid(),
        vcpus=1,
        memory_mib=128,
        accelerator="kvm" if facts.kvm else "tcg",
        firmware="bios",
        hostdevs=devices,
        ownership=Ownership(fleet="contract", vm=name, vm_id=name, generation=1),
    )
    return domainxml.render(plan, facts.versions)


def state(facts: HostFacts) -> HostFacts:
    """What must be the same before and after.

    Not our domains, the VFs' group numbers, and how full disks are: others write to them too.
    """
    foreign = tuple(each for each in facts.domains if not each.name.startswith(PREFIX))
    gpus = tuple(map(_without_groups, facts.gpus))
    pools = tuple(replace(pool, available_bytes=0) for pool in facts.pools)
    return replace(facts, domains=foreign, gpus=gpus, pools=pools)


def _without_groups(gpu: GpuFacts) -> GpuFacts:
    """A VF that is turned on again has a new IOMMU group."""
    return replace(gpu, vfs=tuple(replace(each, iommu_group=None) for each in gpu.vfs))


def _presented(held: ClaimFacts) -> dict[str, object]:
    return {"allocation": held.allocation, "generation": held.generation, "vm": held.vm}
