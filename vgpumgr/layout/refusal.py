"""Why a layout cannot be applied to a GPU now."""

from __future__ import annotations

from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.placement import Usage


class LayoutRefused(Conflict):
    """``holders`` are the VMs and foreign things that stand in the way, where any do."""

    code = "conflict.layout"

    def __init__(
        self, message: str, *, why: str = "", next: str = "", holders: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, why=why, next=next)
        self.holders = holders


def name(gpu: GpuFacts) -> str:
    """How a sentence names the GPU: ``A100-PCIE-80GB 0000:41:00.0``."""
    return f"{gpu.model} {gpu.device}"


def unread(gpu: GpuFacts, what: str) -> LayoutRefused:
    """What could not be read is never taken for absent, and never changed."""
    return LayoutRefused(
        f"{what} of {name(gpu)} could not be read",
        why="what is not known is not changed",
        next="vgpumgr host probe HOST, then look at its unknown parts",
    )


def holder(usage: Usage) -> str:
    """Who lives there: a VM of ours, or what a foreigner is."""
    return usage.vm or usage.foreign or usage.profile
