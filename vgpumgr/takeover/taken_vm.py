"""Descriptions of VMs as VMs of the fleet: names, images of their disks, and a last check."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import yaml

from vgpumgr.model.domain import PASSED_CPU
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.model.vm_devices import DiskMode, DiskSpec
from vgpumgr.model.vm_names import legal_name
from vgpumgr.spec.dump import vm_document
from vgpumgr.spec.load import load
from vgpumgr.spec.spec_file import SpecError
from vgpumgr.takeover.guest_description import GuestDescription, SourceDisk
from vgpumgr.takeover.source_keys import SourceFinding
from vgpumgr.takeover.takeover_choices import TakeoverChoices

_MOST_NAME = 63
_ENDING = re.compile(r"\.(conf|ovf|xml)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetVm:
    """A VM that the fleet has. ``unfinished``: its creation was cut. ``uuid`` is its machine's."""

    spec: VmSpec
    uuid: str = ""
    unfinished: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def macs(self) -> tuple[str, ...]:
        """The MAC addresses that it was given."""
        return tuple(nic.mac for nic in self.spec.nics if nic.mac)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenDisk:
    """A disk of the VM and the image that it is copied from; the rest is as the source has it."""

    source: SourceDisk
    image: str

    @property
    def reference(self) -> str:
        """The image's first version."""
        return f"{self.image}@1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenVm:
    """``spec`` is the VM of ours, None where there is none. ``there``: the fleet has it already,
    under that name, and with ``spec`` its creation was cut; ``made_from`` are the images that its
    disks were copied from then. ``problems`` keep it from being taken over.
    """

    described: GuestDescription
    name: str
    spec: VmSpec | None = None
    disks: tuple[TakenDisk, ...] = ()
    there: bool = False
    made_from: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[SourceFinding, ...]:
        """What becomes of each key of the source."""
        return self.described.findings


def taken_vms(
    described: Sequence[GuestDescription], choices: TakeoverChoices, fleet: Sequence[FleetVm]
) -> tuple[TakenVm, ...]:
    """One for each description, in their order."""
    names = _names(described)
    return tuple(
        _taken(each, name, choices, fleet) for each, name in zip(described, names, strict=True)
    )


def _names(described: Iterable[GuestDescription]) -> list[str]:
    """A name for each; of several alike each has its source's name with it."""
    plain = [(legal_name(each.title), each) for each in described]
    often = Counter(name for name, _ in plain)
    return [
        name if often[name] == 1 else joined(name, short_name(each.source)) for name, each in plain
    ]


def short_name(source: str) -> str:
    """``/etc/pve/qemu-server/101.conf`` → ``101``."""
    return _ENDING.sub("", source.rpartition("/")[2])


def joined(*parts: str) -> str:
    """``cad`` and ``scsi0`` → ``cad-scsi0``: the end is what tells them apart, the beginning is
    cut.
    """
    last = legal_name(parts[-1])[-31:].lstrip("-") or "x"
    first = legal_name("-".join(parts[:-1]))[: _MOST_NAME - len(last) - 1]
    return f"{first.rstrip('-')}-{last}"


def _taken(
    each: GuestDescription, name: str, choices: TakeoverChoices, fleet: Sequence[FleetVm]
) -> TakenVm:
    known = _known(each, name, fleet)
    if known is not None:
        spec = known.spec if known.unfinished else None
        return TakenVm(
            described=each,
            name=known.name,
            spec=spec,
            disks=_disks(each, known.name),
            there=True,
            made_from=frozenset(disk.image for disk in known.spec.disks if disk.image),
        )
    if each.memory_mib == 0:
        return TakenVm(described=each, name=name, problems=each.problems or (_NO_VM,))
    disks = _disks(each, name)
    spec = _spec(each, name, disks, choices)
    problems = [*each.problems, *_name_problems(name, fleet), *_spec_problems(spec, choices)]
    return TakenVm(
        described=each, name=name, spec=spec, disks=disks, problems=tuple(dict.fromkeys(problems))
    )


def _disks(each: GuestDescription, name: str) -> tuple[TakenDisk, ...]:
    return tuple(TakenDisk(source=disk, image=joined(name, disk.key)) for disk in each.disks)


_NO_VM = "it says nothing of a VM's memory"


def _known(each: GuestDescription, name: str, fleet: Iterable[FleetVm]) -> FleetVm | None:
    macs = tuple(nic.mac for nic in each.nics if nic.mac)
    for vm in fleet:
        if each.uuid and vm.uuid == each.uuid:
            return vm
        if vm.name == name and macs and vm.macs == macs and not each.uuid:
            return vm
    return None


def _name_problems(name: str, fleet: Iterable[FleetVm]) -> Iterator[str]:
    if any(vm.name == name for vm in fleet):
        yield f"the fleet has another VM {name}: rename it on the source, or delete that one"


def _spec(
    each: GuestDescription, name: str, disks: Sequence[TakenDisk], choices: TakeoverChoices
) -> VmSpec:
    return VmSpec(
        name=name,
        vcpus=each.vcpus,
        memory_mib=each.memory_mib,
        gpus=tuple(_counted(each.gpus)),
        disks=tuple(_disk(disk, choices.pool) for disk in disks),
        nics=each.nics,
        firmware=each.firmware,
        secure_boot=each.secure_boot and each.firmware == "uefi",
        tpm=each.tpm,
        console=each.console,
        agent=each.agent,
        audio=each.audio,
        autostart=each.autostart,
        cpu_model=each.cpu_model or PASSED_CPU,
        cpu_shares=each.cpu_shares,
        hugepage_kib=each.hugepage_kib,
        uuid=each.uuid,
        os=each.os,
        labels=dict(each.labels),
        tenant=choices.tenant,
    )


def _disk(disk: TakenDisk, pool: str) -> DiskSpec:
    return DiskSpec(pool=pool, mode=DiskMode.COPY, image=disk.reference, tuning=disk.source.tuning)


def _counted(gpus: Iterable[GpuRequest]) -> Iterator[GpuRequest]:
    """Like requests as one with a count, in the order in which each came first."""
    for request, count in Counter(gpus).items():
        yield replace(request, count=count)


def _spec_problems(spec: VmSpec, choices: TakeoverChoices) -> Iterator[str]:
    """What `apply` would refuse of it."""
    text = yaml.safe_dump(vm_document(spec), sort_keys=False)
    try:
        load(text, spec.name, choices.profiles)
    except SpecError as error:
        for problem in error.problems:
            yield f"{problem.path}: {problem.message}" if problem.path else problem.message
