"""Simulated hosts as ``ports.Hosts``, over the socket of the process that serves them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from vgpumgr.hosts.helper.helper_call import HelperCall, Identity
from vgpumgr.hosts.helper.helper_console import HelperConsole
from vgpumgr.hosts.helper.helper_launch import HelperLaunch
from vgpumgr.hosts.program_runner import CallCut
from vgpumgr.hosts.reached_host import ReachedHost
from vgpumgr.model.codec import from_plain
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.sim import joined_helper
from vgpumgr.sim.transport.fleet_socket import Channel
from vgpumgr.sim.transport.libvirt_proxies import (
    Call,
    ProxyLibvirt,
    SimInstallation,
    SimRunner,
    under_deadline,
)
from vgpumgr.sim.transport.move_client import Connect, FleetCall, FleetPeer

SCHEME = "sim://"

_ANSWER_S = 30.0
_LAUNCH = HelperLaunch(argv=("vgpumgr-helper",))


class SimHosts:
    """The hosts of the process that serves ``state``, by addresses ``sim://NAME``.

    Every call raises HostUnreachable while that process is down; after ``call_timeout_s`` seconds
    a look raises DeadlineExceeded and a change OutcomeUnknown. ``identity`` gives the fleet's id
    and the store's epoch for verbs that change, ``renew`` the same with a newer epoch for a host
    that has seen one.
    """

    def __init__(
        self,
        state: Path,
        call_timeout_s: float = 30.0,
        *,
        identity: Identity = lambda: ("", 0),
        renew: Identity | None = None,
    ) -> None:
        self._channel = Channel(state, call_timeout_s)
        self._hosts = Opened(
            self._call, self.session, self._program, identity, call_timeout_s, renew
        )

    def open(self, record: HostRecord) -> Host:
        """The host; nothing is connected yet."""
        return self._hosts.open(record)

    def close(self) -> None:
        """Drop all connections."""
        self._channel.close()

    @contextmanager
    def session(self) -> Iterator[FleetCall]:
        """One connection of our own; what was begun over it ends with it, as with this process."""
        with self._channel.alone() as ask:

            def call(name: str, target: str, method: str, arguments: Any, kind: Any) -> Any:
                return _typed(kind, ask(name, target, method, arguments))

            yield call

    def _program(self, name: str, _argv: Sequence[str]) -> joined_helper.SocketProgram:
        try:
            return joined_helper.SocketProgram(self._channel.program(name))
        except CallCut as cut:
            kind = DeadlineExceeded if cut.timed_out else HostUnreachable
            raise kind(f"{name} denies access to everybody", why=cut.why) from cut

    def _call(
        self, name: str, target: str, method: str, arguments: dict[str, Any], kind: Any
    ) -> Any:
        return _typed(kind, self._channel.call(name, target, method, arguments))


def _typed(kind: Any, plain: Any) -> Any:
    return plain if kind is None else from_plain(kind, plain)


class Opened:
    """One host object for each address."""

    def __init__(
        self,
        call: FleetCall,
        connect: Connect,
        program: Callable[[str, Sequence[str]], joined_helper.SocketProgram],
        identity: Identity,
        timeout_s: float,
        renew: Identity | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._call = call
        self._clock = clock
        self._connect = connect
        self._program = program
        self._identity = identity
        self._renew = renew
        self._timeout_s = timeout_s
        self._hosts: dict[tuple[str, str], Host] = {}
        self._lock = threading.Lock()

    def open(self, record: HostRecord) -> Host:
        """The host; nothing is connected yet."""
        if not record.address.startswith(SCHEME):
            raise HostUnreachable(
                f"{record.address} is not a simulated host", next=f"use {SCHEME}NAME"
            )
        with self._lock:
            key = (record.name, record.address)
            if key not in self._hosts:
                self._hosts[key] = self._make(record)
            return self._hosts[key]

    def _make(self, record: HostRecord) -> Host:
        call: Call = partial(self._call, record.address.removeprefix(SCHEME))
        helper = HelperCall(
            record.name,
            SimRunner(call),
            _LAUNCH,
            timeout_s=self._timeout_s,
            identity=self._identity,
            renew=self._renew,
        )
        place = FleetPeer(self._connect, record.address.removeprefix(SCHEME))
        guarded = under_deadline(record.name, call)
        libvirt, installation = ProxyLibvirt(guarded, place), SimInstallation(guarded)
        console = HelperConsole(
            record.name,
            partial(self._program, record.address.removeprefix(SCHEME)),
            _LAUNCH,
            timeout_s=self._timeout_s or _ANSWER_S,
            identity=self._identity,
        )
        return ReachedHost(
            record.name,
            helper,
            lambda: libvirt,
            installation=installation,
            console=console,
            clock=self._clock,
        )
