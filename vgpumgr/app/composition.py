"""The composition root: settings, ledger, hosts, and the engine over them.

How each host is reached is picked by its address. Everything is made on first use, so that a
list never loads SSH or libvirt.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.app.actor import actor
from vgpumgr.app.config import Config
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import NotFound
from vgpumgr.model.load_scale import NO_LOADS, MeasuredLoads

if TYPE_CHECKING:
    from vgpumgr.app.access_control import AccessControl
    from vgpumgr.app.console_tickets import ConsoleTickets
    from vgpumgr.app.fence_programs import Fences
    from vgpumgr.app.secret_store import SecretStore
    from vgpumgr.engine.images.upload_folder import UploadFolder
    from vgpumgr.engine.operations.expected_requests import ExpectedRequests, Weights
    from vgpumgr.engine.operations.operation_outcome import VmOutcome
    from vgpumgr.engine.use_cases import Engine
    from vgpumgr.hosts.real_hosts import RealHosts
    from vgpumgr.model.failover import FailoverReserve
    from vgpumgr.model.host import HostRecord
    from vgpumgr.model.host_sample import FleetSample
    from vgpumgr.model.ledger import Ledger
    from vgpumgr.model.ledger_state import Freeze
    from vgpumgr.model.ports import Host, Hosts
    from vgpumgr.sim.sim_client import SimHosts
    from vgpumgr.store import Migration
    from vgpumgr.telemetry.telemetry_files import TelemetryFiles


class KeptLoads:
    """Indexed once for each time that they were renewed."""

    def __init__(self, files: TelemetryFiles) -> None:
        self._files = files
        self._indexed: tuple[FleetSample, MeasuredLoads] | None = None

    def newest(self) -> MeasuredLoads:
        """The newest; NO_LOADS where there are none of now."""
        sample = self._files.sample(time.time())
        if sample is None:
            return NO_LOADS
        indexed = self._indexed
        if indexed is None or indexed[0] is not sample:
            loads = MeasuredLoads(at=sample.at, vms={each.vm: each for each in sample.loads})
            indexed = self._indexed = (sample, loads)
        return indexed[1]


SIMULATED = "sim://"


class HostRouter:
    """``sim://NAME`` goes to the simulated fleet, everything else to real hosts.

    Each way is made on first use, so that a simulated fleet never loads SSH.
    """

    def __init__(self, *, simulated: Callable[[], Hosts], real: Callable[[], Hosts]) -> None:
        self._simulated = simulated
        self._real = real

    def open(self, record: HostRecord) -> Host:
        """The host of a ledger record."""
        way = self._simulated if is_simulated(record) else self._real
        return way().open(record)

    def close(self) -> None:
        """Does nothing: whoever made the two kinds of hosts closes them."""


def is_simulated(record: HostRecord) -> bool:
    """Is this a simulated host?"""
    return record.address.startswith(SIMULATED)


class App:
    """One process's view of one fleet. Close it when done."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.stop = threading.Event()
        self.unasked = False
        self.begun: Callable[[str], None] = lambda _: None
        self.progress: Callable[[VmOutcome], None] = lambda _: None
        self.tell: Callable[[str], None] = lambda _: None
        self.notice: Callable[[str], None] = lambda _: None
        self._closers: list[Callable[[], None]] = []

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger for reading: without a file, lists are empty and nothing is created."""
        return self._open_ledger(create=False)

    @cached_property
    def writable_ledger(self) -> Ledger:
        """The ledger for changing: made on first use."""
        return self._open_ledger(create=True)

    def _open_ledger(self, *, create: bool) -> Ledger:
        from vgpumgr.store import open_ledger

        ledger = open_ledger(
            self.config.ledger,
            create=create,
            migrated=self._migrated,
            by=actor(),
            method=LoginMethod.SERVE if self.unasked else LoginMethod.SHELL,
        )
        self._closers.append(ledger.close)
        return ledger

    def _migrated(self, done: Migration) -> None:
        if done.before != done.after:
            was = f"schema {done.before} → {done.after}"
            self.notice(f"the ledger was migrated: {was}, backup: {done.backup}")

    def leave_to_person(self) -> None:
        """Write down that what this process works on was interrupted by the person at it, who has
        the setting's time before others go on with it.
        """
        if self.config.interrupted_s:
            self.writable_ledger.leave_operations(time.time() + self.config.interrupted_s)

    def frozen(self) -> Freeze | None:
        """Why the ledger allocates nothing, if this process has opened it."""
        opened = self.__dict__.get("writable_ledger") or self.__dict__.get("ledger")
        return opened.frozen() if opened is not None else None

    def absent_ledger(self) -> str:
        """The file of the ledger where there is none; empty where there is one, or a server."""
        where = self.config.ledger
        return "" if "://" in where or Path(where).exists() else where

    def migrate_ledger(self) -> Migration:
        """Bring the ledger to today's schema; LedgerError when there is none."""
        from vgpumgr.store import migrate_ledger

        return migrate_ledger(self.config.ledger)

    @cached_property
    def real_hosts(self) -> RealHosts:
        """Hosts over SSH, and the local one."""
        from vgpumgr.hosts.real_hosts import RealHosts

        hosts = RealHosts(
            ssh_config=self.config.ssh_config,
            connect_timeout_s=self.config.connect_timeout_s,
            call_timeout_s=self.config.call_timeout_s,
            identity=lambda: self._identity,
            renew=self._renewed,
            own_key=self.config.keys_dir / "id_ed25519",
        )
        self._closers.append(hosts.close)
        return hosts

    @cached_property
    def sim_hosts(self) -> SimHosts:
        """The simulated fleet of this state folder."""
        from vgpumgr.sim.sim_client import SimHosts

        hosts = SimHosts(
            self.config.state_dir / "sim",
            self.config.call_timeout_s,
            identity=lambda: self._identity,
            renew=self._renewed,
        )
        self._closers.append(hosts.close)
        return hosts

    @property
    def _identity(self) -> tuple[str, int]:
        """Who changes hosts: a take-over by another process does not reach it, so that it fences
        us off.
        """
        return self._fleet_id, self.writable_ledger.spoken_epoch()

    def _renewed(self) -> tuple[str, int]:
        """The same in today's epoch, which another's take-over may have raised; ClaimLost where
        it is us that were taken over from.
        """
        return self._fleet_id, self.writable_ledger.fresh_epoch()

    @cached_property
    def _fleet_id(self) -> str:
        return self.writable_ledger.fleet_id()

    @cached_property
    def hosts(self) -> HostRouter:
        """Every host by its address: ``sim://NAME``, ``local`` or ``USER@HOST``."""
        return HostRouter(simulated=lambda: self.sim_hosts, real=lambda: self.real_hosts)

    @cached_property
    def telemetry_files(self) -> TelemetryFiles:
        """The newest figures of GPUs, as `serve` keeps them on this machine."""
        from vgpumgr.telemetry.telemetry_files import TelemetryFiles

        return TelemetryFiles(self.config.telemetry_folder)

    @cached_property
    def engine(self) -> Engine:
        """The engine over the writable ledger and all hosts."""
        from vgpumgr.engine.use_cases import Engine
        from vgpumgr.engine.workers.thread_workers import SystemClock, ThreadWorkers
        from vgpumgr.model.refusal import Tolerance

        return Engine(
            ledger=self.writable_ledger,
            hosts=self.hosts,
            lanes=ThreadWorkers(self.config.lanes),
            clock=SystemClock(),
            new_uuid=lambda: str(uuid.uuid4()),
            policy=self.config.policy,
            expected=self.expected,
            fencing=self.fences,
            secrets=self.secrets,
            tolerance=Tolerance(most=self.config.quarantine_after),
            stop=self.stop,
            left_s=self.config.interrupted_s,
            unasked=self.unasked,
            reserve=self.reserve,
            loads=KeptLoads(self.telemetry_files),
            begun=self._begun,
            progress=self._report,
            tell=self._tell,
        )

    @property
    def reserve(self) -> FailoverReserve:
        """What placement keeps for lost hosts."""
        from vgpumgr.model.failover import FailoverReserve

        return FailoverReserve(hosts=self.config.reserve_hosts, policy=self.config.policy)

    @cached_property
    def expected(self) -> ExpectedRequests:
        """What is expected to be asked for."""
        from vgpumgr.app.solver_process import solving
        from vgpumgr.engine.operations.expected_requests import ExpectedRequests

        return ExpectedRequests(self._declared_mix, solving)

    def _declared_mix(self) -> Weights:
        """The requests that the settings declare as expected; () where none."""
        declared = self.config.mix
        if declared is None:
            return ()
        from vgpumgr.engine.inventory.observation import learned_profiles
        from vgpumgr.spec import SpecError, load_mix

        try:
            return load_mix(declared.text, declared.source)
        except SpecError:
            known = learned_profiles(self.ledger)
            return load_mix(declared.text, declared.source, known)

    def _begun(self, operation: str) -> None:
        self.begun(operation)

    def _report(self, outcome: VmOutcome) -> None:
        self.progress(outcome)

    def _tell(self, text: str) -> None:
        self.tell(text)

    @cached_property
    def fences(self) -> Fences:
        """What proves that hosts are off."""
        from vgpumgr.app.fence_programs import Fences
        from vgpumgr.engine.workers.thread_workers import SystemClock

        return Fences(SystemClock(), secrets=self.secrets)

    @cached_property
    def secrets(self) -> SecretStore:
        """The values of secrets on this machine."""
        from vgpumgr.app.secret_store import SecretStore

        given = os.environ.get("CREDENTIALS_DIRECTORY", "")
        return SecretStore(self.config.state_dir / "secrets", Path(given) if given else None)

    @cached_property
    def access(self) -> AccessControl:
        """Who asks, and what they may do."""
        return self._access(self.writable_ledger)

    @cached_property
    def shown_access(self) -> AccessControl:
        """The same for reading: without a ledger no user has a role."""
        return self._access(self.ledger)

    @cached_property
    def console_tickets(self) -> ConsoleTickets:
        """Console tickets of the API."""
        from vgpumgr.app.console_tickets import ConsoleTickets

        return ConsoleTickets(self.writable_ledger, self.access)

    def _access(self, ledger: Ledger) -> AccessControl:
        from vgpumgr.app.access_control import AccessControl

        return AccessControl(ledger, self.config)

    @cached_property
    def uploads(self) -> UploadFolder:
        """The image files that users send to this controller."""
        from vgpumgr.engine.images.image_upload import UploadLimits
        from vgpumgr.engine.images.upload_folder import UploadFolder

        limits = UploadLimits(
            most_bytes=self.config.upload_max,
            most_staged=self.config.upload_total,
            keep_s=self.config.upload_keep,
        )
        return UploadFolder(self.config.state_dir / "uploads", limits)

    def require_hosts(self) -> None:
        """NotFound when no host is enrolled yet."""
        if not self.ledger.hosts():
            raise NotFound(
                "no host is enrolled",
                why=f"the state folder is {self.config.state_dir}",
                next="vgpumgr host add NAME --address USER@HOST   (or try: vgpumgr sim up)",
            )

    def close(self) -> None:
        """Close whatever was opened, last first."""
        while self._closers:
            self._closers.pop()()
