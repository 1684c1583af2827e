"""Differences between two specs of one VM: its fields in YAML words, and the change each needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from vgpumgr.model.apply_plan import Action
from vgpumgr.model.errors import Conflict, HostUnreachable
from vgpumgr.model.formats import exact_size
from vgpumgr.model.vm import (
    ChangeReach,
    DiskMode,
    DiskSpec,
    GpuRequest,
    NicSpec,
    VmSpec,
    change_reach,
    terms_text,
)

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


MOST_NAMED = 5


def changed_fields(old: VmSpec, new: VmSpec) -> tuple[str, ...]:
    """A line per changed field: ``memory: 4GiB → 8GiB``; says which ones only a new VM can have."""
    return tuple(
        f"{change(name, before, after)}{' (needs a new VM)' if _is_stuck(name) else ''}"
        for name, before, after in _differences(old, new)
    )


def needs_restart(old: VmSpec, new: VmSpec) -> bool:
    """Does the change reach a running domain only through a stop and a start?"""
    return ChangeReach.DEFINITION in _reaches(old, new)


def stuck_fields(old: VmSpec, new: VmSpec) -> tuple[str, ...]:
    """The fields that differ and that only a new VM can have."""
    return tuple(name for name, _, _ in _differences(old, new) if _is_stuck(name))


def only_bookkeeping(old: VmSpec, new: VmSpec) -> bool:
    """Does the change leave the host alone?"""
    return _reaches(old, new) <= {ChangeReach.LEDGER}


def _is_stuck(name: str) -> bool:
    return change_reach(name) is ChangeReach.NEW_VM


def _reaches(old: VmSpec, new: VmSpec) -> set[ChangeReach]:
    return {change_reach(name) for name, _, _ in _differences(old, new)}


def refuse_impossible(action: Action) -> None:
    """Conflict when a change needs a new VM: other GPUs, disks, pinning or pages."""
    if action.record is None or not action.replace:
        return
    stuck = stuck_fields(action.record.spec, action.vm)
    raise Conflict(
        f"{action.vm.name} cannot change {', '.join(map(key, stuck))} in place",
        why="; ".join(action.details),
        next=action.replace,
    )


def refuse_unreached(action: Action, reached: Collection[str]) -> None:
    """HostUnreachable when a definition would change on a host that did not answer."""
    if action.record is None or action.host in reached:
        return
    if not only_bookkeeping(action.record.spec, action.vm):
        raise HostUnreachable(
            f"{action.vm.name} cannot be changed",
            why=f"host {action.host} did not answer",
            next=f"vgpumgr host probe {action.host}",
        )


def refuse_resting(vms: Iterable[tuple[str, str]], resting: Collection[str]) -> None:
    """Conflict when one of these, each a VM and its host, lies on a host in maintenance."""
    for vm, host in vms:
        if host in resting:
            raise Conflict(
                f"{host} is in maintenance",
                why=f"vgpumgr does not touch it, and {vm} is on it",
                next=f"vgpumgr host maintenance {host} --off",
            )


def refuse_restart(actions: Iterable[Action]) -> None:
    """Conflict when a change needs a stop that the user did not allow."""
    waiting = [action for action in actions if action.needs_restart]
    if waiting:
        names = ", ".join(action.vm.name for action in waiting[:MOST_NAMED])
        rest = len(waiting) - MOST_NAMED
        raise Conflict(
            f"the change needs a stop of {names}{f' and {rest} more' if rest > 0 else ''}",
            why="; ".join(dict.fromkeys(detail for each in waiting for detail in each.details)),
            next="vgpumgr apply -f FILE --restart",
        )


def _differences(old: VmSpec, new: VmSpec) -> Iterator[tuple[str, object, object]]:
    for field in fields(VmSpec):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after:
            yield field.name, before, after
