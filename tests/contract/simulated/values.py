"""What the simulated benches are made of."""

from __future__ import annotations

from typing import Any

from vgpumgr import catalog
from vgpumgr.model.host import Versions
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimBoard, SimHost

FIRST = "0000:41:00.0"
A100, H100, RTX_PRO = "A100-PCIE-80GB", "H100-PCIE-80GB", "RTX-PRO-6000-BSE"
# How the profiles of an RTX PRO 6000 begin.
DC = "RTX Pro 6000 Blackwell DC"
OLD = Versions(kernel="6.1.0-37-amd64", libvirt="9.0.0", qemu="7.2.22", driver="550.54.16")
R535 = Versions(kernel="6.1.0-37-amd64", libvirt="9.0.0", qemu="7.2.22", driver="535.161.05")
NEW = Versions(kernel="6.12.43", libvirt="11.3.0", qemu="10.0.2", driver="580.105.06")


def host(board: str, versions: Versions = NEW, count: int = 1, **fields: Any) -> SimHost:
    return SimHost(
        name="h1", boards=(SimBoard(board=board, count=count, **fields),), versions=versions
    )


def number(board: str, profile: str) -> int:
    """The driver's number of ``A40-8Q``."""
    found = catalog.board(board)
    assert found is not None
    return next(each.id for each in found.types if each.id and each.profile == profile)


def turned_on(reached: Host, count: int, pf: str = FIRST) -> tuple[str, ...]:
    vfs = reached.helper.call("vfs_set", {"gpu": pf, "count": count})["vfs"]
    assert isinstance(vfs, list)
    return tuple(vfs)


def total(reached: Host) -> int:
    return next(each for each in reached.probe().gpus if each.device == FIRST).sriov_total
