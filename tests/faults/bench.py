"""One scenario at its start, and copies of any moment that it can be brought to."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import processes
from tests.faults.ends import ENDS
from tests.faults.mortal import CONTROL
from tests.faults.points import Fuse
from tests.faults.processes import Ended
from tests.faults.scenario import Place, Scenario, mortal_app
from tests.faults.simulator import Simulator
from tests.faults.stores import Stores
from vgpumgr.app.composition import App
from vgpumgr.hosts.program_runner import CallCut
from vgpumgr.sim.transport.fleet_socket import Channel

DEADLINE_S = 60.0
COMMAND = "command"


class Hosts:
    """A simulator's process, from outside."""

    def __init__(self, folder: Path) -> None:
        self.state = folder
        self._channel = Channel(folder / "sim", DEADLINE_S)

    def copy(self) -> Hosts:
        """The same hosts once more, as they are now."""
        other = Hosts(Path(tempfile.mkdtemp(dir=self.state.parent)))
        self._ask("fork", state=str(other.state / "sim"))
        return other

    def dump(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("dump")
        return found

    def quit(self) -> None:
        with suppress(CallCut):  # that is its answer
            self._ask("quit")
        self._channel.close()
        self.state.rmdir()

    def _ask(self, method: str, **arguments: str) -> Any:
        return self._channel.call("", CONTROL, method, arguments)


@dataclass(slots=True)
class Left:
    """Hosts, and where their ledger lies, as a process left them; ``after`` so many before."""

    hosts: Hosts
    url: str
    after: int


@dataclass(slots=True)
class Moment:
    """The same, kept: it can be copied as often as needed."""

    hosts: Hosts
    ledger: Any
    after: int = 0


class Bench:
    """A scenario's start, prepared once and copied as often as needed."""

    def __init__(self, scenario: Scenario, stores: Stores, folder: Path, seed: int) -> None:
        self._scenario = scenario
        self._stores = stores
        self._seed = seed
        url = stores.fresh()
        hosts, self._process = _prepared(scenario, url, folder)
        self.start = Moment(hosts, stores.save(url))
        self.baseline = self._dump(hosts, url)

    def run(self, moment: Moment, doing: str, at: int) -> tuple[Ended, Left, dict[str, Any]]:
        """The command (or an end) in a process of its own from a copy of that moment, killed at
        its ``at``-th point (0: never): how it ended, what it left, and a dump of that.

        The caller hands what was left to ``go_on``, ``keep`` or ``drop``, before anything else.
        """
        left = Left(moment.hosts.copy(), self._stores.load(moment.ledger), moment.after + 1)
        ended = self._process_of(left, doing, at)
        return ended, left, self._dump(left.hosts, left.url)

    def go_on(self, left: Left, doing: str) -> tuple[Ended, dict[str, Any]]:
        """An end, undisturbed, where the last process stopped; what it had left is used up."""
        left.after += 1
        ended = self._process_of(left, doing, 0)
        dump = self._dump(left.hosts, left.url)
        self.drop(left)
        return ended, dump

    def keep(self, left: Left) -> Moment:
        """What was left, as a moment; drop it, too."""
        return Moment(left.hosts, self._stores.save(left.url), left.after)

    def drop(self, left: Left | Moment) -> None:
        """Nobody needs these hosts any more."""
        left.hosts.quit()

    def close(self) -> None:
        self.drop(self.start)
        os.waitpid(self._process, 0)

    def _process_of(self, left: Left, doing: str, at: int) -> Ended:
        work = self._scenario.command if doing == COMMAND else _end(self._scenario, doing)
        seed = f"{self._seed} {self._scenario.name} {doing} {left.after - 1}"

        def process(tell: processes.Tell) -> None:
            fuse = Fuse(at, tell)
            app = mortal_app(left.url, left.hosts.state, fuse, seed)
            try:
                work(app)
            finally:
                tell([each.plain for each in fuse.points])
            app.close()

        return processes.run(process, DEADLINE_S)

    def _dump(self, hosts: Hosts, url: str) -> dict[str, Any]:
        return {**hosts.dump(), "store": self._stores.rows(url)}


def _end(scenario: Scenario, name: str) -> Callable[[App], None]:
    return lambda app: ENDS[name](app, scenario)


def _prepared(scenario: Scenario, url: str, folder: Path) -> tuple[Hosts, int]:
    """A process that prepares the scenario, then is its hosts."""
    hosts = Hosts(Path(tempfile.mkdtemp(dir=folder)))
    read, write = os.pipe()
    pid = processes.fork()
    if pid == 0:
        os.close(read)
        _prepare_and_serve(scenario, url, hosts.state, write)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        answer = told.read()
    if answer != b"1":
        raise RuntimeError(f"{scenario.name} cannot be prepared: {answer.decode()}")
    return hosts, pid


def _prepare_and_serve(scenario: Scenario, url: str, state: Path, ready: int) -> None:
    """Never returns."""
    try:
        place = Place(url, scenario.hosts)
        for prepare in scenario.prepare:
            prepare(place)
        place.close()
    except BaseException:
        os.write(ready, traceback.format_exc().encode())
        os._exit(1)
    Simulator(place.hosts.fleet).serve(state / "sim", ready)
