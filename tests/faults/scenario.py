"""A scenario: hosts, how they stand at its start, and the one command that is killed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.faults.mortal import MortalChannel, MortalLedger, MortalSwitch
from tests.faults.points import Cut, Fuse, Wire
from tests.faults.stores import replace_rows, rows
from tests.faults.strangers import put_strangers
from vgpumgr.app.composition import App
from vgpumgr.app.config import Config
from vgpumgr.app.fence_programs import Fences, ProgramResult
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.host import Fence, HostRecord
from vgpumgr.model.layout import GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.model.ports import Helper
from vgpumgr.model.sim_fleet import SimFleet, SimHost
from vgpumgr.model.vm import VmSpec
from vgpumgr.sim.in_process import InProcessHosts

CALL_TIMEOUT_S = 20.0
FENCE = Fence(off=("power", "off"), status=("power", "status"))


class Place:
    """Where a scenario is prepared: simulated hosts in this process, the real engine over them."""

    def __init__(self, url: str, hosts: Iterable[SimHost]) -> None:
        self.url = url
        self._processes = 0
        self.hosts = Installable(SimFleet(name="faults", hosts=tuple(hosts)), self)
        self.app = self._composed()

    @property
    def engine(self) -> Engine:
        return self.app.engine

    def enrol(self, *names: str) -> None:
        """Enrol hosts, each ready to take running VMs."""
        for name in names:
            to = MigrationAddress(address=name)
            record = HostRecord(name=name, address=f"sim://{name}", migration=to)
            self.app.writable_ledger.add_host(record)
            put_strangers(self.hosts.fleet.hosts[name])
        self.engine.refresh()

    def cut(self, layout: GpuLayout | None, *hosts: str) -> None:
        """Partition every GPU of these hosts."""
        if layout is not None:
            self.engine.layout_apply([layout_spec(layout, *hosts)])[1].raise_for_failure()

    def apply(self, *vms: VmSpec) -> None:
        self.engine.apply(vms)[1].raise_for_failure()

    def cordon(self, name: str, *, on: bool) -> None:
        ledger = self.app.writable_ledger
        ledger.update_host(replace(ledger.host(name), cordoned=on))

    def inject(self, host: str, *words: str) -> None:
        self.hosts.fleet.inject(host, words)

    def held(self, name: str) -> Allocation:
        """What a VM holds."""
        return next(each for each in self.app.ledger.allocations() if each.vm == name)

    def helper(self, host: str) -> Helper:
        """The helper on a host, as the ledger's owner calls it."""
        return self.hosts.open(self.app.ledger.host(host)).helper

    def remembered(self) -> Callable[[], None]:
        """Copies the ledger; what this returns puts the copy in the place of a later one."""
        copy = rows(self.url)

        def put_back() -> None:
            self.close()
            replace_rows(self.url, copy)
            self.app = self._composed()

        return put_back

    def cut_off(self, command: Command, words: str) -> None:
        """A command whose process dies at its first point of these words."""
        self.begin_anew()
        mortal = MortalLedger(self.app.writable_ledger, Wire(words))
        self.app.__dict__["writable_ledger"] = self.app.__dict__["ledger"] = mortal
        self.app.__dict__["engine"] = replace(self.engine, ledger=mortal)
        try:
            command(self.app)
        except Cut:
            self.begin_anew()
        else:
            raise AssertionError(f"no point with {words!r}")

    def begin_anew(self) -> None:
        """Another process, over the same ledger and hosts."""
        self.close()
        self.app = self._composed()

    def close(self) -> None:
        """The engine's part ends; the hosts live on."""
        self.app.writable_ledger.close()

    def _composed(self) -> App:
        self._processes += 1
        app = _app(self.url, Path("/nonexistent"))
        app.__dict__["sim_hosts"] = self.hosts
        app.__dict__["ledger"] = app.writable_ledger
        app.__dict__["fences"] = Fences(SystemClock(), self._switch)
        app.__dict__["engine"] = _serial(app.engine, f"prepare {self._processes}")
        return app

    def _switch(self, argv: Sequence[str], _: float) -> ProgramResult:
        """The power switch of the first host."""
        if "off" in argv:
            self.inject("h1", "off")
        return ProgramResult(0, "on" if self.hosts.fleet.hosts["h1"].faults.powered else "off")


class Installable(InProcessHosts):
    """In-process hosts that a helper can be installed on."""

    def __init__(self, fleet: SimFleet, place: Place) -> None:
        super().__init__(fleet, identity=lambda: place.app._identity)

    def install(self, record: HostRecord) -> None:
        self.fleet.host(record.name).install()


Prepare = Callable[[Place], None]
Command = Callable[[App], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """``operation`` on ``part`` (a framework, a part of a layout, …).

    ``ends`` name what may follow on a crash: all but the same command again need a journal.
    ``sure``: however often the command is interrupted and typed again, it ends as when it is left
    alone. ``several``: it has parts that end by themselves, so that only the same command again
    ends it as a whole. ``excused`` are violations that its start already is, ``heals`` differences
    that ``heal`` ends.
    """

    operation: str
    part: str
    hosts: tuple[SimHost, ...]
    command: Command
    prepare: tuple[Prepare, ...] = field(default=())
    ends: tuple[str, ...] = ("again", "resume", "undo", "serve")
    sure: bool = True
    several: bool = False
    excused: tuple[str, ...] = ()
    heals: frozenset[DriftKind] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.operation}/{self.part}".replace(" ", "-")


def mortal_app(url: str, state: Path, fuse: Fuse, seed: str) -> App:
    """The program as a command composes it, over a ledger and a way to hosts that may kill it."""
    app = _app(url, state)
    ledger = MortalLedger(app.writable_ledger, fuse)
    app.__dict__["writable_ledger"] = app.__dict__["ledger"] = ledger
    app.sim_hosts._channel = MortalChannel(state / "sim", CALL_TIMEOUT_S, fuse)
    app.__dict__["fences"] = Fences(SystemClock(), MortalSwitch(state / "sim", fuse).run)
    app.__dict__["engine"] = _serial(app.engine, seed)
    return app


def layout_spec(layout: GpuLayout, *hosts: str) -> LayoutSpec:
    """One layout for every GPU of these hosts."""
    return LayoutSpec(name="cut", hosts=hosts, rules=(LayoutRule(layout=layout),))


def _app(url: str, state: Path) -> App:
    return App(Config(ledger=url, state_dir=state, call_timeout_s=CALL_TIMEOUT_S))


def _serial(engine: Engine, seed: str) -> Engine:
    """In one order, with ids that the seed tells: the same run again passes the same points."""
    numbers = random.Random(seed)
    return replace(
        engine,
        lanes=SerialWorkers(),
        new_uuid=lambda: str(uuid.UUID(int=numbers.getrandbits(128), version=4)),
    )
