"""Another fleet on the same hosts: a ledger, an epoch and VMs of its own.

What is its own stays so whatever the first fleet does, and the other way round.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.fakes import FakeClock
from tests.ledgers import new_ledger
from tests.simworld import vm
from tests.soak import oracle
from tests.soak.hands import Foreign
from tests.soak.plots import HOSTS, Plot
from vgpumgr.engine.heal.remedy import DriftSelection
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.model.errors import LedgerError, VgpumgrError
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import Affinity
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.sim.simulated_fleet import SimulatedFleet
from vgpumgr.store import open_ledger
from vgpumgr.store.admin.maintenance import back_up, restore_ledger

NEIGHBOURS = ("y", "z")


class Neighbour:
    """``there`` has by name whether a VM is there; None: a command on it failed. ``shaken`` are
    those whose power and devices may be otherwise than its ledger says.
    """

    def __init__(self, folder: Path, hosts: InProcessHosts, plot: Plot) -> None:
        self._folder = folder
        self._file = folder / "beside.db"
        self._plot = plot
        new_ledger(self._file)
        self._ledger = open_ledger(self._file)
        for name in HOSTS:
            self._ledger.add_host(HostRecord(name=name, address=f"sim://{name}"))
        ids = Random(1)
        self._engine = Engine(
            ledger=self._ledger,
            hosts=hosts.seen_by(lambda: (self._ledger.fleet_id(), self._ledger.epoch())),
            lanes=SerialWorkers(),
            clock=FakeClock(),
            new_uuid=lambda: str(uuid.UUID(int=ids.getrandbits(128), version=4)),
            stop=threading.Event(),
        )
        self._reader = oracle.Reader(self._file)
        self._backups = 0
        self.there: dict[str, bool | None] = dict.fromkeys(NEIGHBOURS, False)
        self.shaken: set[str] = set()

    @property
    def books(self) -> oracle.Books:
        """What its ledger says now."""
        return self._reader.books(self._ledger)

    def make_or_delete(self, name: str, host: str, kind: int) -> str:
        """A VM of that name is made on the host, or goes; "" when it ended well, else how."""
        gone = name in self.books.vms
        end = self._give(lambda: self._delete(name) if gone else self._make(name, kind, host))
        self.there[name] = None if end else not gone
        if end:
            self.shaken.add(name)
        else:
            self.shaken.discard(name)
        return end

    def turn(self, name: str, *_: object) -> str:
        """On or off: of what is off, the claim alone says whose it is."""
        vm = self.books.vms.get(name)
        if vm is None:
            return ""
        end = self._give(lambda: self._stop(name) if vm.running else self._start(name))
        (self.shaken.add if end else self.shaken.discard)(name)
        return end

    def look(self, *_: object) -> str:
        """Compare."""
        return self._give(self._engine.drift)

    def heal(self, *_: object) -> str:
        """Put right what is its own."""
        self.shaken |= set(NEIGHBOURS)
        return self._give(lambda: self._engine.heal(DriftSelection()))

    def go_back(self, name: str, host: str, kind: int) -> str:
        """A backup, one more command, the backup restored: hosts know what the ledger lacks."""
        if self.books.waiting or self.books.frozen:
            return self.thaw()
        self._backups += 1
        kept = self._folder / f"backup-{self._backups}"
        back_up(self._file, kept)
        self.make_or_delete(name, host, kind)
        self._ledger.close()
        restore_ledger(self._file, kept, by="tests", confirm=lambda _: None)
        self._open()
        self.shaken |= set(NEIGHBOURS)
        assert self.books.frozen, "a ledger that went back in time allocates"
        return self.thaw()

    def thaw(self) -> str:
        """It takes in what hosts know, and its epoch is another."""
        gone = [name for name in self.books.vms if self.there[name] is False]
        return self._give(lambda: self._engine.thaw(forget=gone)) if self.books.frozen else ""

    def lost_power(self, host: str) -> None:
        """What of it ran there is off."""
        self.shaken |= {each.name for each in self._ledger.vms() if each.host == host}

    def mend(self, host: str) -> None:
        """Its GPUs are used again."""
        for gpu in self._ledger.gpus(host):
            if gpu.state is GpuState.QUARANTINED:
                self._ledger.lift(gpu.id)

    def check(self, first: oracle.Books, fleet: SimulatedFleet, foreign: Foreign) -> None:
        """What is its own is there, and nothing of it is the first fleet's."""
        if self.books.frozen:  # what it holds was so once
            assert self.books.frozen.startswith("restored from"), self.books.frozen
            return
        oracle.apart(first, self.books, fleet)
        for name, there in self.there.items():
            if name not in self.books.open_names and there is not None:
                assert (name in self.books.vms) == there, f"{name} of the other fleet: not {there}"
        oracle.check(self.books, fleet, foreign, shaken=self.shaken, undefined=())

    def end(self) -> None:
        """Its VMs go."""
        self._ledger.close()  # its process is gone, and another comes
        self._open()
        self.thaw()
        assert not self.books.frozen, f"never thaws: {self.books.frozen}"
        for operation in self._ledger.operations(open_only=True):
            self._finish(operation.id)
        names = [each.name for each in self._ledger.vms()]
        self._engine.delete(names, keep_disks=False, force=True).raise_for_failure()
        assert (self._ledger.vms(), self._ledger.allocations()) == ((), ())

    def close(self) -> None:
        """Let go of its files."""
        self._reader.close()
        self._ledger.close()

    def _make(self, name: str, kind: int, host: str) -> object:
        profile = self._plot.profiles[kind % len(self._plot.profiles)]
        spec = vm(name, profile, affinity=Affinity(hosts=(host,)))
        return self._engine.apply([spec])[1].raise_for_failure()

    def _delete(self, name: str) -> object:
        return self._engine.delete([name], keep_disks=False, force=True).raise_for_failure()

    def _start(self, name: str) -> object:
        return self._engine.start([name]).raise_for_failure()

    def _stop(self, name: str) -> object:
        return self._engine.stop_vms([name], force=True, timeout_s=2).raise_for_failure()

    def _open(self) -> None:
        self._ledger = open_ledger(self._file)
        self._engine = replace(self._engine, ledger=self._ledger)

    def _finish(self, operation: str) -> None:
        """Go on with it, else undo it."""
        if self._give(lambda: self._engine.resume(operation).raise_for_failure()):
            self._engine.undo(operation).raise_for_failure()

    def _give(self, act: Callable[[], object]) -> str:
        try:
            act()
        except LedgerError:
            raise
        except VgpumgrError as error:
            assert error.message and (error.why or error.next), f"no way out: {error!r}"
            return error.code
        return ""


# What it does, with a name, a host and a kind of VM; "" where that ended well.
AFFAIRS: dict[str, Callable[[Neighbour, str, str, int], str]] = {
    "makes or deletes": Neighbour.make_or_delete,
    "turns on or off": Neighbour.turn,
    "looks": Neighbour.look,
    "heals": Neighbour.heal,
    "goes back": Neighbour.go_back,
}
