"""Model values written back as the documents that a user would write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import PLAIN_NIC, UNTUNED_DISK
from vgpumgr.model.guest import GuestSpec
from vgpumgr.model.layout import (
    POWER_DEFAULT,
    UNLOCKED,
    VFS_MAX,
    GpuLayout,
    InstanceGoal,
    LayoutRule,
    LayoutSpec,
)
from vgpumgr.model.nic import SriovNic
from vgpumgr.model.port_rules import PortFilter
from vgpumgr.model.vm import Affinity, GpuRequest, Terms, VmSpec
from vgpumgr.model.vm_backup import OwnBackups, RetentionRules
from vgpumgr.model.vm_devices import CloudInit, DiskSpec, NicSpec
from vgpumgr.spec.fields import API_VERSION, duration

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
# Fields of VmSpec that a document has in other words; all others it has as they are.
_OTHER_WORDS = {
    *("name", "vcpus", "memory_mib", "gpus", "disks", "nics", "hugepage_kib"),
    *("affinity", "cloud_init", "guest", "queue", "scale", "screen", "backup"),
}


def vm_document(spec: VmSpec) -> dict[str, Any]:
    """The ``kind: VM`` document of one VM; what is at its default is left out. It is no replica."""
    document = {
        "apiVersion": API_VERSION,
        "kind": "VM",
        "name": spec.name,
        "gpus": [_gpu(each) for each in spec.gpus],
        "vcpus": spec.vcpus,
        "memory": _size(spec.memory_mib << 20),
        "disks": [_disk(each) for each in spec.disks],
        "networks": [_nic(each) for each in spec.nics],
        "hugepages": _size(spec.hugepage_kib << 10) if spec.hugepage_kib else None,
        "affinity": _given(spec.affinity, Affinity()),
    }
    document = {key: value for key, value in document.items() if value not in (None, [], {})}
    if spec.cloud_init is not None:
        document["cloud_init"] = _given(replace(spec.cloud_init, instance_id=""), CloudInit())
    if spec.screen is not None:
        heads = {"heads": spec.screen.heads} if spec.screen.heads != 1 else {}
        resolution = spec.screen.resolution
        document["screen"] = heads | ({"resolution": resolution} if resolution else {})
    if spec.guest is not None:
        document["guest"] = _guest(spec.guest)
    if spec.queue is not None:
        document["queue"] = _queue(spec.queue)
    if spec.backup is not None:
        document["backup"] = _backup(spec.backup)
    rest = _given(spec, VmSpec(name="", vcpus=0, memory_mib=0))
    return document | {key: value for key, value in rest.items() if key not in _OTHER_WORDS}


def _queue(terms: Terms) -> dict[str, Any] | bool:
    given = _given(terms, Terms())
    runtime_s = given.pop("runtime_s", None)
    if runtime_s is not None:
        given["runtime"] = duration(runtime_s)
    if given.pop("together", ""):
        given["together"] = True
    return given or True


def _backup(own: OwnBackups) -> dict[str, Any]:
    kept = _given(own.keep, RetentionRules())
    return {"target": own.target, "every": duration(own.every_s), **kept}


def _guest(guest: GuestSpec) -> dict[str, Any]:
    given = _given(guest, GuestSpec())
    within_s = given.pop("within_s", None)
    if within_s is not None:
        given["ready_within"] = duration(within_s)
    return given


def layout_document(spec: LayoutSpec) -> dict[str, Any]:
    """The ``kind: Layout`` document of a layout; what is left as it is is left out."""
    document = {
        "apiVersion": API_VERSION,
        "kind": "Layout",
        "name": spec.name,
        "hosts": list(spec.hosts),
        "host_labels": dict(spec.host_labels),
        "gpus": [_rule(each) for each in spec.rules],
    }
    return {key: value for key, value in document.items() if value not in ([], {})}


def _rule(rule: LayoutRule) -> dict[str, Any]:
    layout, models = rule.layout, list(rule.models)
    which = {"model": models[0] if len(models) == 1 else models, "devices": list(rule.devices)}
    parts = {
        "mig": layout.mig,
        "vfs": "max" if layout.vfs == VFS_MAX else layout.vfs,
        "mixed_size": layout.mixed_size,
        "instances": None if layout.instances is None else _instances(layout.instances),
        "scheduler": layout.scheduler and layout.scheduler.value,
        "scheduler_timing": _timing(layout),
        "power": _power(layout),
    }
    given = {key: value for key, value in parts.items() if value is not None}
    return {key: value for key, value in which.items() if value} | given


def _timing(layout: GpuLayout) -> dict[str, Any] | str | None:
    match layout.scheduler_timing:
        case (slice_us,):
            return {"time_slice_ms": slice_us / 1000}
        case (frequency, averaging):
            return {"frequency_hz": frequency, "averaging": averaging}
        case ():
            return "default"
        case _:
            return None


def _power(layout: GpuLayout) -> dict[str, Any] | None:
    limit, clocks = layout.power_limit, layout.locked_clocks
    found = {
        "limit_watts": "default" if limit == POWER_DEFAULT else limit,
        "locked_clocks": clocks and list(clocks) if clocks != UNLOCKED else "default",
    }
    return {key: value for key, value in found.items() if value is not None} or None


def _instances(goals: Sequence[InstanceGoal]) -> list[dict[str, Any]]:
    """One entry per goal with a place, one with a count for equal neighbours without."""
    found = []
    for goal, alike in groupby(goals):
        entry = _given(goal, InstanceGoal(profile=""))
        count = len(list(alike))
        if goal.start is None and count > 1:
            found.append(entry | {"count": count})
        else:
            found += [entry] * count
    return found


def _gpu(gpu: GpuRequest) -> dict[str, Any]:
    given = _given(gpu, GpuRequest())
    memory_mib = given.pop("memory_mib", None)
    models = given.pop("models", None)
    if models:
        given["model"] = models
    return {**({"memory": _size(memory_mib << 20)} if memory_mib else {}), **given}


def _disk(disk: DiskSpec) -> dict[str, Any]:
    given = _given(replace(disk, tuning=UNTUNED_DISK, restored=None), DiskSpec())
    size = given.pop("size_bytes", None)
    tuning = _given(disk.tuning, UNTUNED_DISK)
    if limit := tuning.pop("bytes_s", None):
        tuning["bandwidth"] = _size(limit)
    return {**({"size": _size(size)} if size else {}), **given, **tuning}


def _nic(nic: NicSpec) -> dict[str, Any]:
    given = _given(replace(nic, tuning=PLAIN_NIC, sriov=None), NicSpec())
    if nic.sriov is not None:
        return given | {"sriov": _given(nic.sriov, SriovNic())}
    tuning = _given(nic.tuning, PLAIN_NIC)
    if own := PortFilter.named(nic.tuning.filter):
        tuning["filter"] = {"clean_traffic": own.clean, "allow": [str(each) for each in own.allow]}
    for way in ("inbound", "outbound"):
        if limit := tuning.pop(f"{way}_kib_s", None):
            tuning[way] = _size(limit << 10)
    return given | tuning


def _given(value: object, default: object) -> dict[str, Any]:
    """The fields of a value that are not at their default, as plain data."""
    plain: Mapping[str, Any] = to_plain(value)
    usual: Mapping[str, Any] = to_plain(default)
    return {key: each for key, each in plain.items() if each != usual[key]}


def _size(size: int) -> str:
    factor, unit = next(each for each in _UNITS if size % each[0] == 0)
    return f"{size // factor}{unit}"
