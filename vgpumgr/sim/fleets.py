"""The fleet that ``sim up`` makes when no file names another."""

from __future__ import annotations

from vgpumgr.model.simulated import SimBoard, SimFleet, SimHost

SMALL = SimFleet(
    name="small",
    hosts=(
        SimHost(name="t4-1", boards=(SimBoard(board="T4", count=4),)),
        SimHost(name="t4-2", boards=(SimBoard(board="T4", count=4),)),
        SimHost(name="rtx-1", boards=(SimBoard(board="RTX8000P", count=2),)),
        SimHost(
            name="h100-1",
            boards=(SimBoard(board="H100-PCIE-80GB", count=4),),
            hugepages_1gib=64,
        ),
    ),
)
