"""ECC of a GPU's memory, current and pending."""

from __future__ import annotations

from collections.abc import MutableMapping

from vgpumgr.catalog import Board

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
