"""What VMs hold and their host has lost: a reboot takes VFs, vGPUs and GPU instances. A layout
brings back the partitioning that they need, and no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from vgpumgr.layout import vfs
from vgpumgr.layout.refusal import LayoutRefused, holder, name
from vgpumgr.layout.wanted import Want, Wanted
from vgpumgr.model.gpu import GpuFacts, GpuInstance
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.placement import Usage


def refuse(gpu: GpuFacts, wanted: Wanted, usages: Iterable[Usage]) -> None:
    """LayoutRefused where something lost could not be made again where it was."""
    for usage in usages:
        if usage.needs is not None and not _comes_back(gpu, wanted, usage):
            raise LayoutRefused(
                f"{name(gpu)} is held by {holder(usage)}",
                why=f"its {usage.profile}, which the host has lost, needs {_needed(usage)}",
                next=f"declare that, or vgpumgr vm delete {holder(usage)}, then apply again",
                holders=(holder(usage),),
            )


def from_layout(usage: Usage) -> bool:
    """Did it live in a GPU instance that a layout makes, not one that is made for it?"""
    return usage.needs is not None and bool(usage.needs.instances)


def where_they_were(wants: Sequence[Want], lived: Iterable[GpuInstance]) -> tuple[Want, ...]:
    """Declared instances at the places that lost vGPUs come back to."""
    found = list(wants)
    for place in {each.start: each for each in lived}.values():
        alike = [n for n, want in enumerate(found) if want.profile.id == place.profile_id]
        there = [n for n in alike if found[n].start == place.start]
        free = [n for n in alike if found[n].start is None]
        if free and not there:
            found[free[0]] = replace(found[free[0]], start=place.start)
    return tuple(found)


def _comes_back(gpu: GpuFacts, wanted: Wanted, usage: Usage) -> bool:
    needs = usage.needs or GpuLayout()
    return (
        needs.mig in {None, wanted.mig}
        and (needs.vfs is None or vfs.count(gpu, needs.vfs) == wanted.vfs)
        and needs.mixed_size in {None, wanted.mixed_size}
        and (needs.mig is not True or usage.start in _starts(wanted))
    )


def _starts(wanted: Wanted) -> set[int | None]:
    return {each.start for each in wanted.instances} | {each.start for each in wanted.fixed}


def _needed(usage: Usage) -> str:
    needs = usage.needs or GpuLayout()
    lines = {
        "mig": needs.mig,
        "vfs": "max" if needs.vfs == VFS_MAX else needs.vfs,
        "mixed_size": needs.mixed_size,
        "a GPU instance at slice": usage.start if needs.mig else None,
    }
    return ", ".join(
        f"{key}: {str(value).lower()}" for key, value in lines.items() if value is not None
    )
