"""A VM that a change cannot reach in place: recreated over the disks that it has. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.model.plan import Action
from vgpumgr.model.size import exact_size
from vgpumgr.model.vm import DiskSpec, VmRecord


def way_on(action: Action) -> str:
    """What to type, and to write into the file (``FILE``), to get there without losing a disk."""
    record = action.record
    name = action.vm.name
    if record is None or not record.spec.disks:
        return f"vgpumgr vm delete {name} --force, then vgpumgr apply -f FILE"
    disks = ", ".join(_disks(record, action.vm.disks))
    return (
        f"vgpumgr vm delete {name} --force --keep-disks, then write for {name} "
        f"disks: [{disks}] and affinity: {{hosts: [{record.host}]}}, "
        "then vgpumgr apply -f FILE   (the old volumes stay until you delete them)"
    )


def _disks(record: VmRecord, wanted: tuple[DiskSpec, ...]) -> Iterator[str]:
    """Each disk that it has, as a copy of its volume; then the disks that are new."""
    for number, (had, (pool, volume)) in enumerate(
        zip(record.spec.disks, record.volumes, strict=False)
    ):
        new = wanted[number] if number < len(wanted) else had
        yield _copied(had, new, pool, volume)
    for disk in wanted[len(record.spec.disks) :]:
        yield _as_written(disk)


def _copied(had: DiskSpec, new: DiskSpec, pool: str, volume: str) -> str:
    grown = new.size_bytes if new.size_bytes > had.size_bytes else 0
    words = {
        "mode": "copy",
        "image": volume,
        "image_format": "raw" if had.format == "raw" else "",
        "size": exact_size(grown) if grown else "",
        "pool": pool if pool != "default" else "",
        "format": "raw" if new.format == "raw" else "",
    }
    return _flow(words)


def _as_written(disk: DiskSpec) -> str:
    words = {
        "mode": str(disk.mode) if disk.image else "",
        "image": disk.image or "",
        "image_format": disk.image_format if disk.image and disk.image_format != "qcow2" else "",
        "size": exact_size(disk.size_bytes) if disk.size_bytes else "",
        "pool": disk.pool if disk.pool != "default" else "",
        "format": disk.format if disk.format != "qcow2" else "",
    }
    return _flow(words)


def _flow(words: dict[str, str]) -> str:
    """``{size: 5GiB}``."""
    return f"{{{', '.join(f'{key}: {text}' for key, text in words.items() if text)}}}"
