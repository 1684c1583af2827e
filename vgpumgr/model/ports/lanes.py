"""Work on several hosts side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from vgpumgr.model.waits import WAITS

T = TypeVar("T")
K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)


class Waiting(Protocol):
    """For how long hosts that were asked side by side are waited for."""

    def insists_on(self, host: str) -> bool:
        """Is it asked again, though it still hangs from an earlier look?"""

    def more_s(self, took: Mapping[str, float], silent: Mapping[str, float]) -> float:
        """How many more seconds to wait, 0 or less for none. ``took``: what each host took that
        answered; ``silent``: for how long each of the others has said nothing, those left out
        that failed.
        """


class Looks(Protocol[K_co]):
    """Looks at several hosts under way, side by side; nothing is begun before the first wait."""

    @property
    def answers(self) -> Mapping[str, K_co | Exception]:
        """What is known of each host by now."""

    def wait(self, waiting: Waiting) -> Mapping[str, float]:
        """Wait so long; the hosts that have not answered, with the seconds for which they were
        silent. Their answers count if somebody waits once more.
        """

    def leave(self) -> None:
        """Nobody waits any more: late answers are dropped."""


class Lanes(Protocol):
    """Runs work of different hosts side by side, work of one host in order."""

    def run(
        self, work: Mapping[str, Callable[[], T]], within_s: float | None = WAITS.look_s
    ) -> dict[str, T | Exception]:
        """Run one callable per host name; an exception becomes that host's value.

        One that has not returned after ``within_s`` is left alone, with DeadlineExceeded as its
        value. None is for work that changes hosts: it has deadlines of its own, and must be seen
        to its end.
        """

    def look(self, work: Mapping[str, Callable[[], T]], keep: Callable[[str, T], K]) -> Looks[K]:
        """Looks whose answers go through ``keep``, one after the other, in the thread that waits:
        what nobody waits for is never kept.
        """
