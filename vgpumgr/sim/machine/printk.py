"""The log of a simulated kernel, as a ring that forgets its oldest records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from vgpumgr.helper.kernel_log import LogRecord
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu

_MOST = 1000


class KernelLog:
    """What the driver has said of each GPU, numbered in the order in which it is first read.

    ``now`` is the host's time in seconds.
    """

    def __init__(self, gpus: Mapping[str, NvidiaGpu], now: Callable[[], float]) -> None:
        self._gpus = gpus
        self._now = now
        self._booted_at = now()
        self._taken = dict.fromkeys(gpus, 0)
        self._records: deque[LogRecord] = deque(maxlen=_MOST)
        self._next = 0

    def uptime(self) -> float:
        """Seconds since the boot."""
        return self._now() - self._booted_at

    def records(self) -> Iterator[LogRecord]:
        """The records that are kept, the oldest first."""
        for address, gpu in self._gpus.items():
            for line in gpu.log[self._taken[address] :]:
                self._records.append(LogRecord(self._next, self.uptime(), line))
                self._next += 1
            self._taken[address] = len(gpu.log)
        return iter(tuple(self._records))
