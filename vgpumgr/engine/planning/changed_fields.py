"""A VM's spec against the one that it has: the fields that differ, in the file's words, and how far
each change reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from vgpumgr.model.domain import PLAIN_NIC, UNTUNED_DISK
from vgpumgr.model.formats import exact_size
from vgpumgr.model.nic import SriovNic
from vgpumgr.model.vm import (
    ChangeReach,
    GpuRequest,
    VmRecord,
    VmSpec,
    change_reach,
    duration_text,
    terms_text,
)
from vgpumgr.model.vm_backup import OwnBackups
from vgpumgr.model.vm_devices import CdSpec, DiskMode, DiskSpec, NicSpec

_KEYS = {"memory_mib": "memory", "nics": "networks", "hugepage_kib": "hugepages"}
# Too long for a line: said to differ, not shown.
_LONG = frozenset({"cloud_init", "guest", "affinity"})


def key(field: str) -> str:
    """The file's key for a field of VmSpec."""
    return _KEYS.get(field, field)


def change(field: str, before: object, after: object) -> str:
    """``memory: 2GiB → 4GiB``."""
    if field in _LONG:
        return f"{key(field)}: differs"
    return f"{key(field)}: {_text(field, before)} → {_text(field, after)}"


def _text(field: str, value: object) -> str:
    if value is None or value in ((), {}, ""):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return _TEXTS.get(field, str)(value)


def _gpu(gpu: GpuRequest) -> str:
    count = f" ×{gpu.count}" if gpu.count > 1 else ""
    wanted = gpu.profile or exact_size((gpu.memory_mib or 0) << 20)
    framework = f" by {gpu.framework}" if gpu.framework else ""
    return f"{wanted}{framework}{f' on {gpu.model}' if gpu.model else ''}{count}"


def _disk(disk: DiskSpec) -> str:
    image = "" if disk.mode is DiskMode.FRESH else f"{disk.mode} of {disk.image}"
    size = exact_size(disk.size_bytes) if disk.size_bytes else ""
    return " ".join(part for part in (image, size, f"in {disk.pool}", _disk_tuning(disk)) if part)


def _disk_tuning(disk: DiskSpec) -> str:
    tuning = disk.tuning
    limit = exact_size(tuning.bytes_s) if tuning.bytes_s else ""
    said = {"cache": tuning.cache, "serial": tuning.serial, "iops": tuning.iops, "bandwidth": limit}
    return _said(said)


def _cd(cd: CdSpec) -> str:
    return f"{cd.image} in {cd.pool}{', booted from first' if cd.boot else ''}"


def _nic(nic: NicSpec) -> str:
    tuning = nic.tuning
    if nic.sriov is not None:
        return _vf(nic.sriov, nic.mac)
    where = f"bridge {nic.bridge}" if nic.bridge else f"network {nic.network}"
    model = tuning.model if tuning.model != PLAIN_NIC.model else ""
    said = {"mac": nic.mac, "model": model, "vlan": tuning.vlan, "filter": tuning.filter}
    for way, limit in (("inbound", tuning.inbound_kib_s), ("outbound", tuning.outbound_kib_s)):
        said[way] = exact_size(limit << 10) if limit else ""
    return " ".join(part for part in (where, _said(said)) if part)


def _vf(nic: SriovNic, mac: str) -> str:
    said = {"mac": mac, "vlan": nic.vlan, "trust": "on" if nic.trust else ""}
    said["spoof check"] = "" if nic.spoof_check else "off"
    return " ".join(part for part in (f"VF of {nic.words}", _said(said)) if part)


def _said(values: Mapping[str, object]) -> str:
    text = ", ".join(f"{name} {value}" for name, value in values.items() if value)
    return f"({text})" if text else ""


def _backup(own: OwnBackups) -> str:
    kept = _said({each.name: getattr(own.keep, each.name) for each in fields(own.keep)})
    return f"to {own.target} every {duration_text(own.every_s)} {kept}".rstrip()


def _pairs(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))


_TEXTS: dict[str, Callable[[Any], str]] = {
    "memory_mib": lambda mib: exact_size(mib << 20),
    "hugepage_kib": lambda kib: exact_size(kib << 10),
    "gpus": lambda gpus: ", ".join(map(_gpu, gpus)),
    "disks": lambda disks: ", ".join(map(_disk, disks)),
    "cds": lambda cds: ", ".join(map(_cd, cds)),
    "nics": lambda nics: ", ".join(map(_nic, nics)),
    "labels": _pairs,
    "queue": terms_text,
    "backup": _backup,
}


def changed_fields(old: VmSpec, new: VmSpec, *, adopted: bool = False) -> tuple[str, ...]:
    """A line per changed field: ``memory: 4GiB → 8GiB``; says which ones only a new VM can have."""
    return tuple(
        f"{change(*each)}{' (needs a new VM)' if _is_stuck(each, adopted) else ''}"
        for each in _differences(old, new)
    )


def needs_restart(old: VmSpec, new: VmSpec) -> bool:
    """Does the change reach a running domain only through a stop and a start?"""
    return not _reaches(old, new).isdisjoint(_OFF)


def needs_seat(old: VmSpec, new: VmSpec) -> bool:
    """Does the change need another place on the host: GPU parts or CPUs that it does not hold?"""
    return ChangeReach.SEAT in _reaches(old, new)


def needs_disks(old: VmSpec, new: VmSpec) -> bool:
    """Does the change need volumes that are made or grown?"""
    return not _reaches(old, new).isdisjoint({ChangeReach.DISKS, ChangeReach.GROWTH})


def stuck_fields(old: VmRecord, new: VmSpec) -> tuple[str, ...]:
    """The fields that differ and that only a new VM can have."""
    adopted = bool(old.definition)
    return tuple(each[0] for each in _differences(old.spec, new) if _is_stuck(each, adopted))


def only_bookkeeping(old: VmSpec, new: VmSpec) -> bool:
    """Does the change leave the host alone?"""
    return _reaches(old, new) <= {ChangeReach.LEDGER}


Difference = tuple[str, object, object]
"""A field of VmSpec, what it was and what it is to be."""
_OFF = {ChangeReach.DEFINITION, ChangeReach.SEAT, ChangeReach.DISKS}


def _is_stuck(difference: Difference, adopted: bool) -> bool:
    """The definition of an adopted VM names its devices and disks."""
    reach = _reach(*difference)
    of_devices = {ChangeReach.SEAT, ChangeReach.DISKS, ChangeReach.GROWTH}
    fixed = of_devices if adopted else set()
    return reach is ChangeReach.NEW_VM or reach in fixed


def _reaches(old: VmSpec, new: VmSpec) -> set[ChangeReach]:
    return {_reach(*each) for each in _differences(old, new)}


def _reach(name: str, before: object, after: object) -> ChangeReach:
    """A field's, but for disks and NICs, whose reach is in what about them differs."""
    if name == "disks" and isinstance(before, tuple) and isinstance(after, tuple):
        return _disks_reach(before, after)
    if name == "nics" and _vfs(before) != _vfs(after):
        return ChangeReach.SEAT
    return change_reach(name)


def _vfs(nics: object) -> tuple[SriovNic | None, ...]:
    """A NIC that is a VF takes one of its host's: others lie where they are."""
    found = nics if isinstance(nics, tuple) else ()
    return tuple(nic.sriov for nic in found if nic.sriov is not None)


def _disks_reach(before: tuple[DiskSpec, ...], after: tuple[DiskSpec, ...]) -> ChangeReach:
    """Disks may be tuned, they may grow, and more may come after them; any other disk is another
    VM's.
    """
    was, wanted = _untuned(before), _untuned(after)
    if was == wanted:
        return ChangeReach.DEFINITION
    if not _only_grows(was, wanted):
        return ChangeReach.NEW_VM
    same_tuning = [each.tuning for each in before] == [each.tuning for each in after]
    return ChangeReach.GROWTH if same_tuning else ChangeReach.DISKS


def _untuned(disks: tuple[DiskSpec, ...]) -> tuple[DiskSpec, ...]:
    return tuple(replace(each, tuning=UNTUNED_DISK) for each in disks)


def _only_grows(before: tuple[DiskSpec, ...], after: tuple[DiskSpec, ...]) -> bool:
    kept = zip(before, after, strict=False)
    return len(after) >= len(before) and all(
        new.size_bytes >= old.size_bytes and replace(new, size_bytes=old.size_bytes) == old
        for old, new in kept
    )


def _differences(old: VmSpec, new: VmSpec) -> Iterator[Difference]:
    for field in fields(VmSpec):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after:
            yield field.name, before, after
