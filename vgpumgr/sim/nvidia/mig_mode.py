"""MIG mode of one GPU, current and pending. The pending mode outlives a power cut."""

from __future__ import annotations

from collections.abc import MutableMapping

from vgpumgr import catalog
from vgpumgr.catalog import Board
from vgpumgr.sim.nvidia.mig import Grid
from vgpumgr.sim.nvidia.refused import Refused, Status


class MigMode:
    """``grid`` is None on a board without MIG. ``key`` is where ``durable`` keeps the mode.

    That the mode outlives a reboot was seen on an RTX PRO 6000; Hopper is taken to do the same.
    """

    def __init__(
        self,
        board: Board,
        *,
        seed: int,
        durable: MutableMapping[str, str],
        key: str,
    ) -> None:
        known = catalog.mig(board)
        self.grid = None if known is None else Grid(known, seed)
        self._needs_reset = board.arch == "ampere"
        self._durable = durable
        self._key = key
        self.enabled = self.pending

    @property
    def pending(self) -> bool:
        """The mode after the next reset or boot."""
        return self.grid is not None and self._durable.get(self._key) == "1"

    def active_grid(self) -> Grid:
        """NOT_SUPPORTED: the board has no MIG, or it is off."""
        if self.grid is None or not self.enabled:
            raise Refused(Status.NOT_SUPPORTED)
        return self.grid

    def set(self, wanted: bool, *, vfs_on: bool, idle: bool) -> Status | None:
        """The activation status: None when the mode is set now, else why it is pending.

        IN_USE, and nothing changed, while VFs are on or instances are left. A GPU that is not idle
        leaves the mode pending; Ampere needs a reset, which the driver does itself when idle.
        """
        if self.grid is None:
            raise Refused(Status.NOT_SUPPORTED)
        if wanted != self.enabled and (vfs_on or self.grid.instances):
            raise Refused(Status.IN_USE)
        self._durable[self._key] = "1" if wanted else "0"
        if wanted == self.enabled:
            return None
        if not idle:
            return Status.RESET_REQUIRED if self._needs_reset else Status.IN_USE
        self.settle()
        return None

    def settle(self) -> None:
        """A reset: the pending mode takes effect, every instance is gone."""
        self.clear()
        self.enabled = self.pending

    def clear(self) -> None:
        """Every instance is gone."""
        if self.grid is not None:
            self.grid.instances.clear()
