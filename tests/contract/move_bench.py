"""Two hosts and a kind of device that moves between them with its VM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from tests.contract.bench import PREFIX, claim, new_uuid
from vgpumgr import domainxml
from vgpumgr.model.domain import (
    DomainDisk,
    DomainFacts,
    DomainPlan,
    Hostdev,
    LiveMove,
    MdevHostdev,
    MigrationAddress,
    Ownership,
    PciHostdev,
    VolumeFacts,
    VolumePlan,
)
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ports import Host

VM = f"{PREFIX}moving"
POOL = "default"
MIB = 1 << 20


class Kind(Protocol):
    """How devices of the kind are made and taken away, through the helper."""

    def make(self, host: Host) -> Hostdev:
        """A fresh one."""

    def drop(self, host: Host, device: Hostdev) -> None:
        """Take it away."""


@dataclass(frozen=True)
class Mdevs:
    """Mdevs of a type of a parent that both hosts have."""

    parent: str
    type_id: str

    def make(self, host: Host) -> Hostdev:
        made = MdevHostdev(uuid=new_uuid())
        args = {"parent": self.parent, "type": self.type_id, "uuid": made.uuid, "claim": claim()}
        host.helper.call("mdev_create", args)
        return made

    def drop(self, host: Host, device: Hostdev) -> None:
        host.helper.call("mdev_remove", {"uuid": name_of(device), "claim": claim()})


@dataclass(frozen=True)
class TypedVfs:
    """The first VF of a GPU, with a vGPU of a type (the driver's number) on it."""

    vf: str
    type_number: int

    def make(self, host: Host) -> Hostdev:
        args = {"vf": self.vf, "type": self.type_number, "claim": claim()}
        host.helper.call("vgpu_create", args)
        return PciHostdev(address=self.vf)

    def drop(self, host: Host, device: Hostdev) -> None:
        host.helper.call("vgpu_release", {"vf": name_of(device), "claim": claim()})


@dataclass(frozen=True, kw_only=True)
class MoveBench:
    """``to`` and ``back`` are where the hosts take running VMs. ``kind`` None: no device moves.

    ``whole`` is a function of the source that may be given to a guest; empty: none to spare.
    """

    source: Host
    target: Host
    to: MigrationAddress
    back: MigrationAddress
    kind: Kind | None = None
    whole: str = ""

    @cached_property
    def _first_seen(self) -> HostFacts:
        """For what does not change, and is alike on both: versions, KVM."""
        return self.source.probe()

    @contextmanager
    def running(self, *devices: Hostdev, disk: VolumeFacts | None = None) -> Iterator[None]:
        """The VM on the source; off and forgotten on both hosts afterwards."""
        facts = self._first_seen
        disks = (
            () if disk is None else (DomainDisk(path=disk.path, format=disk.format, target="vda"),)
        )
        plan = DomainPlan(
            name=VM,
            uuid=new_uuid(),
            vcpus=1,
            memory_mib=128,
            accelerator="kvm" if facts.kvm else "tcg",
            firmware="bios",
            hostdevs=devices,
            disks=disks,
            ownership=Ownership(fleet="contract", vm=VM, vm_id=VM, generation=1),
        )
        self.source.domains.define(domainxml.render(plan, facts.versions))
        self.source.domains.start(VM)
        try:
            yield
        finally:
            for host in (self.source, self.target):
                if host.domains.look(VM) is not None:
                    host.domains.destroy(VM)
                    host.domains.undefine(VM)

    @contextmanager
    def made(self, host: Host) -> Iterator[Hostdev]:
        """A device; taken away afterwards."""
        assert self.kind is not None, "this list is for benches with a kind of device that moves"
        device = self.kind.make(host)
        try:
            yield device
        finally:
            self.kind.drop(host, device)

    def drop(self, host: Host, device: Hostdev) -> None:
        """Take a device away before its time."""
        assert self.kind is not None
        self.kind.drop(host, device)

    @contextmanager
    def volumes(self, kind: str = "qcow2") -> Iterator[VolumeFacts]:
        """One of the same name on both hosts; the source's."""
        plan = VolumePlan(pool=POOL, name=f"{PREFIX}disk", capacity_bytes=8 * MIB, format=kind)
        made = [
            each.storage.create(POOL, domainxml.volume(plan)) for each in (self.source, self.target)
        ]
        try:
            yield made[0]
        finally:
            for each in (self.source, self.target):
                each.storage.delete(POOL, plan.name)

    def move(
        self,
        devices: dict[str, str],
        *,
        home: bool = False,
        copied: tuple[str, ...] = (),
        change: Callable[[LiveMove], LiveMove] = lambda move: move,
    ) -> None:
        """Move the VM to the target, or home again; ``devices`` as ``domainxml.moved`` has them."""
        here, there = (self.target, self.source) if home else (self.source, self.target)
        owner = Ownership(fleet="contract", vm=VM, vm_id=VM, generation=2, allocations=("a-2",))
        live, persistent = (
            domainxml.moved(xml, devices=devices, files={}, ownership=owner)
            for xml in (here.domains.live_xml(VM), here.domains.xml(VM))
        )
        move = LiveMove(
            name=VM,
            live_xml=live,
            persistent_xml=persistent,
            to=self.back if home else self.to,
            copied=copied,
        )
        here.domains.migrate(change(move), there)

    def seen(self, host: Host) -> DomainFacts:
        """The VM as a host shows it, which must have it."""
        found = host.domains.look(VM)
        assert found is not None, f"{VM} is not on {host.name}"
        return found


def name_of(device: Hostdev) -> str:
    """Its UUID or address."""
    return device.uuid if isinstance(device, MdevHostdev) else device.address


def elsewhere(move: LiveMove, address: str) -> LiveMove:
    """The same move to another address."""
    return replace(move, to=replace(move.to, address=address))
