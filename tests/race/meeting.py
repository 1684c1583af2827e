"""What the clients of a race share, each in its own process: where they meet, what was read."""

from __future__ import annotations

from multiprocessing.context import BaseContext

PATIENCE_S = 300.0

_OVER, _GPU, _HOST = range(3)


class Meeting:
    """A barrier for all clients, and numbers in shared memory.

    ``over`` and ``generations`` are written by one client while the others are on their way to
    :meth:`gather`, and read by all after it.
    """

    def __init__(self, context: BaseContext, clients: int) -> None:
        self._gate = context.Barrier(clients)
        self._numbers = context.RawArray("q", 3)

    def gather(self) -> None:
        """Wait until everybody is here; BrokenBarrierError once somebody failed."""
        self._gate.wait(PATIENCE_S)

    def leave(self) -> None:
        """Let nobody wait for one that failed."""
        self._gate.abort()

    @property
    def over(self) -> bool:
        """Was the last round the last one?"""
        return bool(self._numbers[_OVER])

    @over.setter
    def over(self, over: bool) -> None:
        self._numbers[_OVER] = over

    @property
    def generations(self) -> tuple[int, int]:
        """The GPU's and the host's, as everybody plans with."""
        return self._numbers[_GPU], self._numbers[_HOST]

    @generations.setter
    def generations(self, read: tuple[int, int]) -> None:
        self._numbers[_GPU], self._numbers[_HOST] = read
