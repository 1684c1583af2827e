"""What every rule needs: a field, names of VMs, a way to give a command and to count it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from tests.soak.field import Act, Field
from tests.soak.model import NAMES, NOBODY, States
from tests.soak.plots import PLOTS
from tests.soak.strikes import Strike
from tests.soak.tally import count

# Where ledgers lie: memory, where there is such a folder. Nobody pulls this machine's plug.
FOLDER = Path("/dev/shm") if Path("/dev/shm").is_dir() else None

Wanted = dict[str, States]


class Life(RuleBasedStateMachine):
    """One fleet's life: its beginning, its end, and what holds in between."""

    field: Field | None = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="soak-", dir=FOLDER))
        self.last: tuple[Act, Wanted] | None = None

    @initialize(plot=st.sampled_from(sorted(PLOTS)))
    def plot(self, plot: str) -> None:
        self.field = Field(self.folder, PLOTS[plot])

    @invariant()
    def holds(self) -> None:
        if self.field is not None:
            self.field.check()

    def teardown(self) -> None:
        try:
            if self.field is not None:
                self.field.end()
        finally:
            if self.field is not None:
                self.field.close()
            shutil.rmtree(self.folder)

    @property
    def there(self) -> list[str]:
        """The VMs that may be there."""
        if self.field is None:
            return []
        return [name for name in NAMES if any(self.field.model.present(name))]

    @property
    def _field(self) -> Field:
        assert self.field is not None
        return self.field

    def _known(self, name: str) -> str:
        """That VM, or another where it is not there: most commands are to be about something."""
        there = self.there
        if name in {*there, NOBODY}:
            return name
        return there[NAMES.index(name) % len(there)]

    def _command(
        self,
        what: str,
        act: Act,
        wanted: Wanted,
        strike: Strike | None,
        calmed: Collection[str] = (),
    ) -> str:
        """Give a command; "" when it ended well, else how it ended."""
        count("rules", what)
        if what != "again":
            self.last = (act, wanted)
        end = self._field.command(act, wanted, strike, calmed)
        count("ends", end or "well")
        if strike is not None:
            count("strikes", strike.kind.value)
        return end
