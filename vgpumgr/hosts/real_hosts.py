"""Real hosts: over SSH or this machine, with libvirtd behind a bridge and a pinned SSH key."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from vgpumgr.hosts.deadlines import side_by_side
from vgpumgr.hosts.helper.helper_call import HelperCall, Identity
from vgpumgr.hosts.helper.helper_console import HelperConsole
from vgpumgr.hosts.helper.helper_installation import RunnerInstallation
from vgpumgr.hosts.helper.helper_launch import installed, streamed
from vgpumgr.hosts.libvirt.guarded_libvirt import GuardedLibvirt
from vgpumgr.hosts.libvirt.libvirt_bridge import LibvirtBridge, SocketStream
from vgpumgr.hosts.libvirt.libvirt_link import LibvirtLink, not_let_in
from vgpumgr.hosts.program_runner import LocalRunner, Runner, StartProgram, start_local
from vgpumgr.hosts.reached_host import ReachedHost, unreachable
from vgpumgr.hosts.ssh.host_keys import check_fingerprint, known_fingerprints
from vgpumgr.hosts.ssh.routes import SshRoutes
from vgpumgr.hosts.ssh.ssh_config import LOCAL
from vgpumgr.hosts.ssh.ssh_connection import SshConnection, start_remote
from vgpumgr.model.errors import HostKeyChanged, HostUnreachable, VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host

LIBVIRT_SOCKETS = (
    Path("/run/libvirt/libvirt-sock"),
    Path("/run/libvirt/virtqemud-sock"),
)
_VIRT_SSH_HELPER = ("virt-ssh-helper", "qemu:///system")


def local_bridge(name: str, sockets: Sequence[Path], timeout_s: float) -> LibvirtBridge:
    """To the first of ``sockets`` that is there; HostUnreachable or NotPermitted."""
    refused = "there is no socket of libvirtd"
    for path in sockets:
        try:
            return LibvirtBridge(SocketStream(path, timeout_s))
        except FileNotFoundError:
            continue
        except PermissionError as error:
            raise not_let_in(name, f"{path}: {error.strerror}") from error
        except OSError as error:
            refused = f"{path}: {error.strerror or error}"
    raise HostUnreachable(
        f"libvirt on {name} cannot be reached",
        why=refused,
        next="systemctl start libvirtd   (Debian: apt install libvirt-daemon-system)",
    )


def ssh_bridge(connection: SshConnection) -> LibvirtBridge:
    """Over a connection that other calls use as well."""
    channel = connection.open(_VIRT_SSH_HELPER)
    try:
        channel.start()
        return LibvirtBridge(channel)
    except BaseException:
        channel.close()
        raise


_GOODBYE_S = 2.0
_LONG_JOBS = 20
"""A long job (a volume's copy, a guest's start) may take this many times an ordinary call."""


class RealHosts:
    """Fulfils ``ports.Hosts`` for ``USER@HOST[:PORT]`` and ``local``. Times are seconds.

    ``identity`` gives the fleet's id and the store's epoch for verbs that change, ``renew`` the
    same with a newer epoch for a host that has seen one. ``ways`` leads to each host over SSH.
    ``local_prefix`` and ``libvirt_sockets`` say where the local host is (tests give it a
    namespace of its own).
    """

    def __init__(
        self,
        *,
        ssh_config: Path | None = None,
        connect_timeout_s: float = 10.0,
        call_timeout_s: float = 30.0,
        identity: Identity = lambda: ("", 0),
        renew: Identity | None = None,
        own_key: Path | None = None,
        local_prefix: Sequence[str] = (),
        libvirt_sockets: Sequence[Path] = LIBVIRT_SOCKETS,
    ) -> None:
        self.ways = SshRoutes(ssh_config, own_key, connect_timeout_s)
        self._connect_s = connect_timeout_s
        self._call_s = call_timeout_s
        self._identity = identity
        self._renew = renew
        self._local_prefix = tuple(local_prefix)
        self._sockets = tuple(libvirt_sockets)
        self._lock = threading.Lock()
        self._open: dict[str, tuple[tuple[str, str, bool], Host, Runner]] = {}

    def open(self, record: HostRecord) -> Host:
        """The host, connected at first use; reopened when address, key or kind changed.

        An address that the SSH configuration makes no sense of is refused at first use, too, so
        that one such host does not stand in the way of others.
        """
        try:
            return self._reached(record)[0]
        except VgpumgrError as error:
            return unreachable(record.name, error)

    def runner(self, record: HostRecord) -> Runner:
        """What runs programs there, over the same connection as everything else."""
        return self._reached(record)[1]

    def user(self, record: HostRecord) -> str:
        """The user as whom programs run on the host."""
        if record.address == LOCAL:
            return pwd.getpwuid(os.geteuid()).pw_name
        return self.ways.target(record.address).user

    def forget(self, name: str) -> None:
        """Close the connections to one host."""
        with self._lock:
            _, host, _ = self._open.pop(name, ((), None, None))
        if host is not None:
            host.close()

    def close(self) -> None:
        """Drop all connections; one to a host that hangs goes in its own time, or with the
        process: nobody waits longer than two seconds for them all.
        """
        side_by_side([partial(self.forget, name) for name in list(self._open)], _GOODBYE_S)

    def _reached(self, record: HostRecord) -> tuple[Host, Runner]:
        wanted = (record.address, record.host_key, record.probe_only)
        if record.address != LOCAL:
            self.ways.target(record.address)  # asks ``ssh`` once, while other hosts are opened
        with self._lock:
            found = self._open.get(record.name)
            if found is not None and found[0] == wanted:
                return found[1], found[2]
            way = self._local if record.address == LOCAL else self._remote
            host, runner = way(record)
            self._open[record.name] = (wanted, host, runner)
        if found is not None:
            found[1].close()
        return host, runner

    def _local(self, record: HostRecord) -> tuple[Host, Runner]:
        runner = LocalRunner(self._local_prefix)
        bridge = partial(local_bridge, record.name, self._sockets, self._connect_s)
        start = partial(start_local, self._local_prefix)
        return self._host(record, runner, bridge, start, _nothing), runner

    def _remote(self, record: HostRecord) -> tuple[Host, Runner]:
        connection = self.ways.connection(record)
        start = partial(start_remote, partial(self.ways.connection, record))
        bridge = partial(ssh_bridge, connection)
        return self._host(record, connection, bridge, start, connection.close), connection

    def _host(
        self,
        record: HostRecord,
        runner: Runner,
        bridge: Callable[[], LibvirtBridge],
        start: StartProgram,
        close: Callable[[], None],
    ) -> Host:
        launch = streamed() if record.probe_only else installed(self.user(record))
        helper = HelperCall(
            record.name,
            runner,
            launch,
            timeout_s=self._call_s,
            identity=self._identity,
            renew=self._renew,
        )
        short, long = (
            LibvirtLink(record.name, bridge, connect_s=self._connect_s, call_s=call_s)
            for call_s in (self._call_s, self._call_s * _LONG_JOBS)
        )
        libvirt = GuardedLibvirt(short, long)

        def close_all() -> None:
            libvirt.close()
            close()

        installation = RunnerInstallation(record.name, runner, lambda: self.user(record), helper)
        console = HelperConsole(
            record.name, start, launch, timeout_s=self._call_s, identity=self._identity
        )
        return ReachedHost(
            record.name,
            helper,
            lambda: libvirt,
            close_all,
            installation=installation,
            console=console,
        )


def _nothing() -> None:
    """The local host has no connection to close."""


AcceptKey = Callable[[str, str], None]


def pin_host_key(
    hosts: RealHosts, record: HostRecord, fingerprint: str, accept: AcceptKey
) -> HostRecord:
    """The record with the key that the host shows now; nothing but the key exchange is done.

    A given ``fingerprint`` must be among the host's keys. Without one, a key of the user's
    known_hosts is taken, and for an unknown host ``accept(name, key)`` decides: it raises to
    refuse. Raises HostKeyChanged, HostUnreachable.
    """
    if record.address == LOCAL:
        return record
    wanted = check_fingerprint(fingerprint) if fingerprint else ""
    shown = hosts.ways.fingerprints(record.address)
    known = known_fingerprints(hosts.ways.target(record.address).known_as)
    if wanted:
        _require(record, shown, frozenset({wanted}), "given")
        return replace(record, host_key=wanted)
    if known:
        _require(record, shown, known, "in known_hosts")
        return replace(record, host_key=next(key for key in shown if key in known))
    accept(record.name, shown[0])
    return replace(record, host_key=shown[0])


def _require(
    record: HostRecord, shown: tuple[str, ...], wanted: frozenset[str], source: str
) -> None:
    if wanted.isdisjoint(shown):
        raise HostKeyChanged(
            f"the SSH key of {record.name} ({record.address}) is not the one {source}",
            why=f"it presents {', '.join(shown)}; {source}: {', '.join(sorted(wanted))}",
            next="on the host's console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
        )
