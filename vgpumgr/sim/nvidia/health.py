"""What goes wrong on a GPU: Xids, remapped rows, clocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from vgpumgr import catalog

FELL_OFF_THE_BUS = 79
ROW_REMAP_RECORDED = 63
_WORDS = {FELL_OFF_THE_BUS: "GPU has fallen off the bus."}


class Recovery(IntEnum):
    """NVML's recovery actions, as far as an Xid leads to them here."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2


@dataclass(slots=True)
class RemappedRows:
    """Rows of memory replaced by spare ones; ``pending`` wants a reset, ``failure`` a new GPU."""

    correctable: int = 0
    uncorrectable: int = 0
    pending: bool = False
    failure: bool = False


@dataclass(slots=True)
class Health:
    """``xids`` are all since boot, oldest first. ``clock_reasons`` is NVML's mask (1: idle).

    ``hidden``: NVML refuses a handle (NVML_ERROR_UNKNOWN), as for a GPU that did not come up.
    """

    address: str
    lost: bool = False
    hidden: bool = False
    recovery: Recovery = Recovery.NONE
    xids: list[int] = field(default_factory=list)
    rows: RemappedRows = field(default_factory=RemappedRows)
    clock_reasons: int = 0x1

    def xid(self, number: int) -> str:
        """Take note of an Xid; its line in the kernel log. 79: the GPU is lost."""
        known = catalog.xid(number)
        if known is not None and known.needs_host_restart:
            self.recovery = Recovery.NODE_REBOOT
        elif number == ROW_REMAP_RECORDED:
            self.rows.pending = True
        elif known is not None and known.needs_reset and known.drain:
            self.recovery = max(self.recovery, Recovery.GPU_RESET)
        self.lost = self.lost or number == FELL_OFF_THE_BUS
        self.xids.append(number)
        words = _WORDS.get(number, known.name if known else "unknown")
        return (
            f"NVRM: Xid (PCI:{self.address.rpartition('.')[0]}): {number}, "
            f"pid='<unknown>', name=<unknown>, {words}"
        )

    def reset(self) -> None:
        """What a reset of the GPU mends; not a failed remapping, and not what needs a reboot."""
        self.rows.pending = False
        if self.recovery is Recovery.GPU_RESET:
            self.recovery = Recovery.NONE
