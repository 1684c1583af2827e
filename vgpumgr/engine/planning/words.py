"""A VM's fields in the words of the user's file (``memory: 2GiB``). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vgpumgr.model.size import exact_size
from vgpumgr.model.terms import terms_text
from vgpumgr.model.vm import DiskMode, DiskSpec, GpuRequest, NicSpec

_KEYS = {"memory_mib": "memory", "nics": "networks", "hugepage_kib": "hugepages"}
# Too long for a line: said to differ, not shown.
_LONG = frozenset({"cloud_init", "affinity"})


def key(field: str) -> str:
    """The file's key for a field of VmSpec."""
    return _KEYS.get(field, field)


def change(field: str, before: object, after: object) -> str:
    """``memory: 2GiB → 4GiB``."""
    if field in _LONG:
        return f"{key(field)}: differs"
    return f"{key(field)}: {_text(field, before)} → {_text(field, after)}"


def _text(field: str, value: object) -> str:
    if value is None or value in ((), {}):
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
    return " ".join(part for part in (image, size, f"in {disk.pool}") if part)


def _nic(nic: NicSpec) -> str:
    return f"bridge {nic.bridge}" if nic.bridge else f"network {nic.network}"


def _pairs(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))


_TEXTS: dict[str, Callable[[Any], str]] = {
    "memory_mib": lambda mib: exact_size(mib << 20),
    "hugepage_kib": lambda kib: exact_size(kib << 10),
    "gpus": lambda gpus: ", ".join(map(_gpu, gpus)),
    "disks": lambda disks: ", ".join(map(_disk, disks)),
    "nics": lambda nics: ", ".join(map(_nic, nics)),
    "labels": _pairs,
    "queue": terms_text,
}
