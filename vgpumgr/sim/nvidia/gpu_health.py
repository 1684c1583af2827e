"""The health of a GPU: ECC, Xids, remapped rows, clocks, and driver calls made to fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from enum import IntEnum

from vgpumgr import catalog
from vgpumgr.catalog import Board
from vgpumgr.model.health import ActionClass

_ON, _OFF = "1", "0"


class Ecc:
    """``enabled`` changes at the next reset or boot only; ``durable`` keeps the wish.

    Off at first where it takes memory away: GDDR boards, which are those without MIG other than
    the V100, and RTX PRO. Not with M60 and M10.
    """

    def __init__(self, board: Board, *, durable: MutableMapping[str, str], key: str) -> None:
        hbm = board.arch == "volta" or (board.mig_capable and not board.key.startswith("RTX"))
        self.supported = board.arch != "maxwell"
        self._default = _ON if hbm else _OFF
        self._durable = durable
        self._key = key
        self.settle()

    @property
    def pending(self) -> bool:
        """The mode after the next reset or boot."""
        return self.supported and self._durable.get(self._key, self._default) == _ON

    def set(self, wanted: bool) -> None:
        """Wants a reset to take effect."""
        self._durable[self._key] = _ON if wanted else _OFF

    def settle(self) -> None:
        """The pending mode takes effect."""
        self.enabled = self.pending


FELL_OFF_THE_BUS = 79
ROW_REMAP_RECORDED = 63
_WORDS = {FELL_OFF_THE_BUS: "GPU has fallen off the bus."}


class Recovery(IntEnum):
    """NVML's recovery actions; an Xid leads to the first three here."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4
    RECOVER_IMEX_DOMAIN = 5
    BUS_RESET = 6
    SYSTEM_REBOOT = 7


# Recovery actions that a reset of the GPU ends.
_MENDED = frozenset({Recovery.GPU_RESET, Recovery.DRAIN_P2P, Recovery.DRAIN_AND_RESET})


@dataclass(slots=True)
class RemappedRows:
    """Rows of memory replaced by spare ones; ``pending`` wants a reset, ``failure`` a new GPU."""

    correctable: int = 0
    uncorrectable: int = 0
    pending: bool = False
    failure: bool = False


@dataclass(slots=True)
class Health:
    """``xids`` are all since boot, oldest first.

    ``uncorrected`` memory errors are counted since the last reset, ``retired`` pages of memory for
    good (boards before Ampere); ``sram_exceeded``: more errors of the SRAM than NVIDIA allows.
    ``hidden``: NVML refuses a handle (NVML_ERROR_UNKNOWN), as for a GPU that did not come up.
    """

    address: str
    lost: bool = False
    hidden: bool = False
    recovery: Recovery = Recovery.NONE
    xids: list[int] = field(default_factory=list)
    rows: RemappedRows = field(default_factory=RemappedRows)
    uncorrected: int = 0
    retired: int = 0
    sram_exceeded: bool = False

    def xid(self, number: int) -> str:
        """Take note of an Xid; its line in the kernel log. 79: the GPU is lost."""
        known, asks = catalog.xid(number), catalog.xid_class(number)
        if asks is ActionClass.RESTART_HOST:
            self.recovery = Recovery.NODE_REBOOT
        elif number == ROW_REMAP_RECORDED:
            self.rows.pending = True
        elif asks is ActionClass.RESET:
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
        self.uncorrected = 0
        if self.recovery in _MENDED:
            self.recovery = Recovery.NONE


UNBIND, CREATE, RESET = "unbind", "create", "reset"
# What can be made to fail, besides NVML's functions by their C name.
KINDS = (UNBIND, CREATE, RESET)


class Failures:
    """How often each kind of call still fails, by the GPU's address."""

    def __init__(self) -> None:
        self._left: Counter[tuple[str, str]] = Counter()

    def add(self, address: str, kind: str, count: int) -> None:
        """The next ``count`` calls of the kind fail."""
        self._left[address, kind] += count

    def take(self, address: str, kind: str) -> bool:
        """Does this call fail? It is counted down."""
        if not self._left[address, kind]:
            return False
        self._left[address, kind] -= 1
        return True

    def clear(self) -> None:
        """None fails any more."""
        self._left.clear()

    def words(self, address: str) -> list[str]:
        """What still fails on a GPU: ``fail unbind 2``."""
        return [
            f"fail {kind} {count}"
            for (where, kind), count in self._left.items()
            if where == address and count
        ]
