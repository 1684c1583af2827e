"""GPUs whose plain SR-IOV VFs are what a VM gets (AMD, Intel): no vGPU type is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, final

from vgpumgr.catalog.shipped_tables import sources, table

MIB_PER_GIB = 1024
_PROFILE = re.compile(r"(?P<key>.+)-1of(?P<count>[1-9]\d*)")
_RANGE = re.compile(r"(\d+) to (\d+)")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SriovBoard:
    """A GPU that gives plain VFs; the numbers are per physical function.

    ``vendor_device`` and ``vf_device`` are PCI ids (``1002:74a1``); on Intel they are equal.
    ``driver`` is the PF's host driver, empty where none is known. ``allowed_vf_counts`` is what
    the vendor supports (empty: nothing is stated, so any), ``total_vfs`` SR-IOV's TotalVFs (None =
    not known). ``numvfs_writable`` False: ``sriov_numvfs`` does not set the count, the driver's
    module option does. ``pf_class`` is the PCI class in six digits (``120000``), empty = not
    known. ``vf_pool_mib`` is what all VFs share. ``verified`` covers product, ids and driver.
    """

    key: str
    name: str
    vendor_device: str
    vf_device: str
    driver: str
    memory_gib: int | None
    vf_pool_mib: int | None
    total_vfs: int | None
    allowed_vf_counts: tuple[int, ...]
    numvfs_writable: bool
    pf_class: str
    source: str
    verified: bool


@cache
def sriov_boards() -> tuple[SriovBoard, ...]:
    """Every such board. Sources: AMD MxGPU (gim), Intel xe and XPU Manager, as each row says."""
    return tuple(_board(row) for row in table("sriov_gpus")["gpus"])


def sriov_board(key: str) -> SriovBoard | None:
    """The board of this key (``MI300X``); None where there is none."""
    return next((each for each in sriov_boards() if each.key == key), None)


def sriov_board_by_pci(vendor_device: str) -> SriovBoard | None:
    """The board whose PF has this PCI id (``1002:74a1``), with the ids of just that variant."""
    return _by_pci().get(vendor_device.lower())


def vf_memory_mib(board: SriovBoard, count: int) -> int | None:
    """What each of ``count`` VFs has, in MiB; None where the memory is not known.

    All VFs are equal. Source: memory_split of the drivers (gim, xe) and of Intel's XPU Manager;
    what the driver keeps for itself is known for some boards only, so this is an upper bound.
    """
    pool = board.vf_pool_mib or (board.memory_gib or 0) * MIB_PER_GIB
    return pool // count or None


def vf_profile(key: str, count: int) -> str:
    """The profile of one VF where ``count`` are on: ``MI300X-1of8``."""
    return f"{key}-1of{count}"


def parse_vf_profile(name: str) -> tuple[str, int] | None:
    """``MI300X-1of8`` → ``("MI300X", 8)``; None for a name of another form."""
    match = _PROFILE.fullmatch(name)
    return (match["key"], int(match["count"])) if match else None


@cache
def _by_pci() -> dict[str, SriovBoard]:
    found = {each.vendor_device: each for each in sriov_boards()}
    for row in table("sriov_gpus")["gpus"]:
        if "pf_device_alt" in row:
            vendor, main = row["pci_vendor"], row["pf_device"]
            other = f"{vendor}:{row['pf_device_alt']}"
            vf_device = f"{vendor}:{row['vf_device_alt']}"
            board = found[f"{vendor}:{main}"]
            found[other] = replace(board, vendor_device=other, vf_device=vf_device)
    return found


def _board(row: dict[str, Any]) -> SriovBoard:
    drivers = {each["key"]: each for each in table("sriov_gpus")["drivers"]}
    driver = row["host_driver"] or ""
    return SriovBoard(
        key=row["key"],
        name=row["name"],
        vendor_device=f"{row['pci_vendor']}:{row['pf_device']}",
        vf_device=f"{row['pci_vendor']}:{row['vf_device']}",
        driver=driver,
        memory_gib=row["memory_gib"],
        vf_pool_mib=_pool_mib(row),
        total_vfs=row["total_vfs"],
        allowed_vf_counts=_counts(row["allowed_vf_counts"]),
        numvfs_writable=bool(driver) and drivers[driver]["sriov_numvfs_writable"],
        pf_class=row.get("pci_class", "").removeprefix("0x"),
        source=sources("sriov_gpus", row["source"]),
        verified=row["verified"],
    )


def _counts(stated: list[int] | str | None) -> tuple[int, ...]:
    """``[1, 8]`` or ``"1 to 31 per GPU"`` → the counts; nothing stated → none."""
    if isinstance(stated, list):
        return tuple(stated)
    match = _RANGE.match(stated or "")
    return tuple(range(int(match[1]), int(match[2]) + 1)) if match else ()


def _pool_mib(row: dict[str, Any]) -> int | None:
    one_vf = next((each["mib"] for each in row.get("vf_profiles", ()) if each["vfs"] == 1), None)
    usable = row.get("vf1_usable_bytes")
    pool: int | None = row.get("vf_pool_mib") or one_vf or (usable and usable >> 20)
    return pool
