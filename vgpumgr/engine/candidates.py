"""A look at hosts of which any may do: nobody waits for those that hang, unless it matters."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.engine.lanes import OneOfMany
from vgpumgr.engine.observe import Observation, Round, silence


class Candidates:
    """Wait, and where that was not enough :meth:`insist`; both keep what the hosts show, and give
    a line for each that could not be read, was left out, or was set aside.

    ``before`` are the errors of the hosts' last looks.
    """

    def __init__(self, round_: Round, waiting: OneOfMany, before: Mapping[str, str]) -> None:
        self._round = round_
        self._waiting = waiting
        self._before = before
        self.left_out: frozenset[str] = frozenset()

    def wait(self) -> tuple[str, ...]:
        """As long as ``waiting`` says. ``left_out`` names who has not answered by then."""
        seen = self._round.wait(self._waiting)
        self.left_out = frozenset(seen.silent)
        return (*lines(seen), *(self._left_out(host, s) for host, s in seen.silent.items()))

    def insist(self) -> tuple[str, ...]:
        """Until all have answered, or their own deadlines have ended it."""
        self.left_out = frozenset()
        return lines(self._round.finish())

    def _left_out(self, host: str, seconds: float) -> str:
        last = self._before[host]
        again = f"; its last probe failed: {last}" if last else ""
        return f"host {host} {silence(seconds)} and was not considered{again}"


def lines(seen: Observation) -> tuple[str, ...]:
    """Hosts that could not be read, or were set aside."""
    failed = (f"{host}: {error.message}" for host, error in seen.failed.items())
    return (*failed, *seen.set_aside)
