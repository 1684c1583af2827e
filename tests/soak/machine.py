"""The rules: everything that can be done to a fleet, in any order, struck at any point."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.soak.commands import Commands
from tests.soak.events import EVENTS, MEDDLING, Event
from tests.soak.model import NAMES, NOBODY
from tests.soak.neighbour import AFFAIRS, NEIGHBOURS
from tests.soak.plots import HOSTS
from tests.soak.tally import count

_small = st.integers(0, 5)


class Soak(Commands):
    """Commands, and what others and the world do."""

    @rule(
        what=st.sampled_from(sorted(EVENTS)),
        host=st.sampled_from(HOSTS),
        name=st.sampled_from([*NAMES, NOBODY]),
        n=_small,
    )
    def event(self, what: str, host: str, name: str, n: int) -> None:
        self._event(what, EVENTS[what], host, name, n)

    @precondition(lambda self: self.there)
    @rule(what=st.sampled_from(sorted(MEDDLING)), name=st.sampled_from(NAMES))
    def meddle(self, what: str, name: str) -> None:
        name = self._known(name)
        found = self._field.books.vms.get(name)
        self._event(what, MEDDLING[what], found.host if found else HOSTS[0], name, 0)

    @precondition(lambda self: self.field is not None and self.field.broken)
    @rule(choice=_small)
    def mend(self, choice: int) -> None:
        count("events", "mended")
        broken = sorted(self._field.broken)
        self._field.mend(broken[choice % len(broken)])

    @precondition(lambda self: self.field is not None and self.field.hands.made)
    @rule()
    def strangers_leave(self) -> None:
        count("events", "strangers leave")
        self._field.hands.leave()

    @precondition(lambda self: self.field is not None)
    @rule(
        what=st.sampled_from(sorted(AFFAIRS)),
        name=st.sampled_from(NEIGHBOURS),
        host=st.sampled_from(HOSTS),
        kind=_small,
    )
    def neighbour(self, what: str, name: str, host: str, kind: int) -> None:
        """What the other fleet does on the same hosts."""
        count("rules", f"neighbour: {what}")
        end = AFFAIRS[what](self._field.beside, name, host, kind)
        count("neighbour's ends", end or "well")

    def _event(self, what: str, event: Event, host: str, name: str, n: int) -> None:
        done = event(self._field, host, name, n)
        count("events" if done else "nothing to do", what)
