"""One lane per host: a slow host delays only itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MAX_LANES = 32


class ThreadLanes:
    """Lanes as threads. Work of one call runs side by side, one callable per host."""

    def __init__(self, most: int = MAX_LANES) -> None:
        self._most = most

    def run(self, work: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
        """Run all; an exception becomes its host's value. Returns when every lane ended."""
        if not work:
            return {}
        with ThreadPoolExecutor(min(self._most, len(work)), "lane") as pool:
            futures = {host: pool.submit(_caught, job) for host, job in work.items()}
            return {host: future.result() for host, future in futures.items()}


class SerialLanes:
    """One thread, hosts in the given order: for runs on virtual time."""

    def run(self, work: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
        """Run all, one after the other."""
        return {host: _caught(job) for host, job in work.items()}


def _caught(job: Callable[[], T]) -> T | Exception:
    try:
        return job()
    except Exception as error:
        return error
