"""The power limit and locked clocks of a simulated GPU, as its driver keeps them until it unloads.

Bounds of a board: a third of its power (nvidia-smi of an A40 tells 100 to 300 W), and all of it.
"""

from __future__ import annotations

from typing import Any

from vgpumgr.catalog.shipped_tables import table
from vgpumgr.sim.nvidia.rm_status import RmRefusal, RmStatus

_DEFAULT_WATTS = 250
_LEAST_MHZ, _MOST_MHZ = 210, 1800


def board_watts(key: str) -> int:
    """The power of a board by its key in the catalogue; a guess for one of which it has none."""
    rows: list[dict[str, Any]] = table("gpus")["gpus"]
    row = next((each for each in rows if each["key"] == key), {})
    return int(row.get("board_power_w") or _DEFAULT_WATTS)


class PowerSettings:
    """Milliwatts and MHz."""

    def __init__(self, watts: int) -> None:
        self.default_mw = 1000 * watts
        self.least_mw, self.most_mw = self.default_mw // 3, self.default_mw
        self.lose()

    def lose(self) -> None:
        """The driver lets go: back to the board's defaults."""
        self.limit_mw = self.default_mw
        self.clocks: tuple[int, int] | None = None

    def set_limit(self, milliwatts: int) -> None:
        """INVALID_ARGUMENT outside the board's bounds (nvml.h)."""
        if not self.least_mw <= milliwatts <= self.most_mw:
            raise RmRefusal(RmStatus.INVALID_ARGUMENT)
        self.limit_mw = milliwatts

    def lock_clocks(self, least: int, most: int) -> None:
        """INVALID_ARGUMENT for a range that is none (nvml.h)."""
        if least > most or most < _LEAST_MHZ:
            raise RmRefusal(RmStatus.INVALID_ARGUMENT)
        self.clocks = (least, most)

    def unlock_clocks(self) -> None:
        """They follow the load again."""
        self.clocks = None

    def held(self, megahertz: int) -> int:
        """A clock within the lock, and within what the board can."""
        if self.clocks is None:
            return megahertz
        least, most = self.clocks
        return min(max(megahertz, least, _LEAST_MHZ), most, _MOST_MHZ)

    @property
    def clock_share(self) -> float:
        """The most of its full clock that the lock allows, from 0 to 1."""
        return 1.0 if self.clocks is None else min(1.0, self.clocks[1] / _MOST_MHZ)
