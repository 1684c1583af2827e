"""One plot in play: hosts, ledger, engine, the hands of others, and who has to be told of what."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

from tests.fakes import FakeClock
from tests.property.test_engine_kill_points import Mortal
from tests.simworld import SimWorld
from tests.soak import oracle
from tests.soak.hands import Hands
from tests.soak.model import Model, States
from tests.soak.neighbour import Neighbour
from tests.soak.plots import HOSTS, Plot
from tests.soak.remembered import Remembered
from tests.soak.strikes import Door, Killed, Kind, Strike
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.errors import LedgerError, VgpumgrError
from vgpumgr.model.gpu import GpuState

Act = Callable[[Engine], None]


class Field:
    """``shaken`` are VMs whose power may be otherwise than the ledger says: a command on them was
    struck, or another hand was at work. ``undefined`` are those whose domain was taken away so.
    """

    def __init__(self, folder: Path, plot: Plot) -> None:
        self.plot = plot
        seconds = count()  # one passes at each look
        self.world = SimWorld(folder, *plot.hosts, clock=lambda: float(next(seconds)))
        self.numbers = count(1)
        ids = Random(0)
        self.world.engine = replace(
            self.world.engine,
            clock=FakeClock(),
            new_uuid=lambda: str(uuid.UUID(int=ids.getrandbits(128), version=4)),
        )
        self.hands = Hands(self.world.sim)
        self._power_cuts: list[str] = []
        self._cut_short: set[str] = set()
        door = Door(self.world.sim.call, self.world.engine.stop.set, self._lose_power)
        self.world.sim.call = self.door = door  # type: ignore[method-assign]
        self.model = Model()
        self._reader = oracle.Reader(folder / "ledger.db")
        self.shaken: set[str] = set()
        self.undefined: set[str] = set()
        self.broken: set[str] = set()
        self._prepare()
        self.beside = Neighbour(folder, self.world.hosts, plot)
        self._remembered = Remembered(self.world.ledger)
        self.empty = {name: oracle.shown(self.world.sim.host(name)) for name in HOSTS}

    def command(
        self,
        act: Act,
        wanted: Mapping[str, States],
        strike: Strike | None,
        calmed: Collection[str] = (),
    ) -> str:
        """Give a command that is to lead to ``wanted``; "" when it ended well, else how.

        ``calmed`` are VMs of which everything is as it should be, if it ended well.
        """
        end = self._give(act, strike)
        if not end:
            self.shaken -= set(calmed)
        for name, states in wanted.items():
            self.model.ended(name, states, well=not end)
            if end:
                self.shaken.add(name)
        while self._power_cuts:
            self.shaken |= self._on(self._power_cuts.pop())
        self.shaken |= self._cut_short
        self._cut_short.clear()
        return end

    def check(self) -> None:
        """Compare model, ledger and hosts."""
        books = self.books
        for name in self.model.possible:
            vm = books.vms.get(name)
            self.model.see(name, vm, unfinished=name in books.open_names)
        oracle.check(
            books,
            self.world.sim,
            self.hands.foreign,
            shaken=self.shaken,
            undefined=self.undefined,
        )
        oracle.no_disks_left(books, self.world.sim)
        assert not books.frozen, f"frozen: {books.frozen}"
        self._remembered.check(self.world.ledger)
        self.beside.check(books, self.world.sim, self.hands.foreign)

    @property
    def books(self) -> oracle.Books:
        """What the ledger says now."""
        return self._reader.books(self.world.ledger)

    def inject(self, host: str, *fault: str) -> None:
        """Break something about a host until it is mended."""
        self.world.sim.inject(host, fault)
        self.broken.add(host)

    def mend(self, host: str) -> None:
        """All its faults go, and its GPUs are used again."""
        self.world.sim.inject(host, ["clear"])
        for gpu in self.world.ledger.gpus(host):
            if gpu.state is GpuState.QUARANTINED:
                self.world.ledger.lift(gpu.id)
        self.beside.mend(host)
        self.broken.discard(host)

    def power_cut(self, host: str) -> None:
        """Everything of a host that is not durable goes."""
        self.hands.power_cut(host)
        self.beside.lost_power(host)
        self.shaken |= self._on(host)

    def end(self) -> None:
        """All faults go, all strangers leave, all VMs are deleted: nothing may be left."""
        for name in HOSTS:
            self.mend(name)
            self.cordon(name, on=False)
        self.hands.leave()
        self.beside.end()
        self.world.restart()
        for _ in range(4):
            waiting = self.world.ledger.operations(open_only=True)
            if waiting:
                self._restore()
            for operation in waiting:
                self._end_operation(operation.id)
        left = self.books.unfinished
        assert not left, f"never ends: {[(t.verb, t.vm, t.host, t.state, t.error) for t in left]}"
        assert not self.world.ledger.operations(open_only=True)
        self.world.delete(*(vm.name for vm in self.world.ledger.vms()))
        self._recut()
        assert (self.world.ledger.vms(), self.world.ledger.allocations()) == ((), ())
        for name in HOSTS:
            shown = oracle.shown(self.world.sim.host(name))
            left = {part: now for part, now in shown.items() if now != self.empty[name][part]}
            assert not left, f"{name} is not as it was: {left}"

    def cordon(self, host: str, *, on: bool) -> None:
        record = self.world.ledger.host(host)
        self.world.ledger.update_host(replace(record, cordoned=on))

    def close(self) -> None:
        self._reader.close()
        self.beside.close()
        self.world.close()

    def _prepare(self) -> None:
        for name in HOSTS:
            record = self.world.ledger.host(name)
            to = MigrationAddress(address=name)
            self.world.ledger.update_host(replace(record, migration=to))
        self.world.sim.host("h1").install()
        self._recut()
        self.world.engine.refresh_all()

    def _recut(self) -> None:
        if self.plot.layout is not None:
            spec = self.plot.spec(HOSTS, self.plot.layout)
            self.world.engine.layout_apply([spec])[1].raise_for_failure()

    def _restore(self) -> None:
        """What a boot took is made again, as an operator would: what was last declared."""
        for each in self.world.ledger.layouts():
            with suppress(VgpumgrError):
                self.world.engine.layout_apply([self.plot.spec((each.host,), each.goal)])
        with suppress(VgpumgrError):
            self._recut()

    def _give(self, act: Act, strike: Strike | None) -> str:
        ledger = self.world.ledger
        if strike is not None and strike.kind is Kind.DIES_WRITING:
            ledger = Mortal(ledger, strike.at, after=strike.after)  # type: ignore[assignment]
        self.door.arm(strike)
        end = ""
        try:
            act(replace(self.world.engine, ledger=ledger))
        except Killed:
            self.world.restart()
            end = "killed"
        except LedgerError:
            raise  # the engine never asks for what is not legal
        except VgpumgrError as error:
            assert error.message and (error.why or error.next), f"no way out: {error!r}"
            end = error.code
        finally:
            self.door.arm(None)
            self.world.engine.stop.clear()
        return end

    def _lose_power(self, host: str) -> None:
        """In the middle of a command, which may yet move a VM that was there."""
        self.hands.power_cut(host)
        self.beside.lost_power(host)
        self._power_cuts.append(host)
        self._cut_short |= self._on(host)

    def _on(self, host: str) -> set[str]:
        return {
            vm.name
            for vm in self.world.ledger.vms()
            if host in {vm.host, vm.moving_to.host if vm.moving_to else ""}
        }

    def _end_operation(self, operation: str) -> None:
        for way in (self.world.engine.resume, self.world.engine.undo):
            try:
                way(operation).raise_for_failure()
            except VgpumgrError:
                continue
            return
