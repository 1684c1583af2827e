"""Real hosts: over SSH, and the local one through the same bridge."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from vgpumgr.hosts.deadline import side_by_side
from vgpumgr.hosts.helper.call import HelperCall, Identity
from vgpumgr.hosts.helper.installation import RunnerInstallation
from vgpumgr.hosts.helper.launch import installed, streamed
from vgpumgr.hosts.libvirt.bridge import Bridge, SocketStream
from vgpumgr.hosts.libvirt.guarded import GuardedLibvirt
from vgpumgr.hosts.libvirt.link import LibvirtLink, not_let_in
from vgpumgr.hosts.reached import ReachedHost, unreachable
from vgpumgr.hosts.runner import LocalRunner, Runner
from vgpumgr.hosts.ssh import sshconfig
from vgpumgr.hosts.ssh.address import LOCAL, SshAddress
from vgpumgr.hosts.ssh.connection import SshConnection, fingerprints, public_key, through
from vgpumgr.hosts.ssh.openssh import OpenSshWay, openssh_way
from vgpumgr.hosts.ssh.sshconfig import SshTarget
from vgpumgr.model.errors import HostUnreachable, UsageError, VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host

LIBVIRT_SOCKETS = (
    Path("/run/libvirt/libvirt-sock"),
    Path("/run/libvirt/virtqemud-sock"),
)
_VIRT_SSH_HELPER = ("virt-ssh-helper", "qemu:///system")
_GOODBYE_S = 2.0
_LONG_JOBS = 20
"""A long job (a volume's copy, a guest's start) may take this many times an ordinary call."""


class RealHosts:
    """Fulfils ``ports.Hosts`` for ``USER@HOST[:PORT]`` and ``local``. Times are seconds.

    ``identity`` gives the fleet's id and the store's epoch for verbs that change, ``renew`` the
    same with a newer epoch for a host that has seen one. ``own_key`` is
    tried before the keys of the SSH configuration, where the file exists.
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
        if ssh_config is not None and not ssh_config.is_file():
            raise UsageError(f"{ssh_config} does not exist", next="correct ssh_config")
        self._config = (ssh_config,) if ssh_config else sshconfig.default_files()
        self._connect_s = connect_timeout_s
        self._call_s = call_timeout_s
        self._identity = identity
        self._renew = renew
        self._own_keys = (own_key,) if own_key else ()
        self._local_prefix = tuple(local_prefix)
        self._sockets = tuple(libvirt_sockets)
        self._lock = threading.Lock()
        self._open: dict[str, tuple[tuple[str, str, bool], Host, Runner]] = {}

    def open(self, record: HostRecord) -> Host:
        """The host, connected at first use; made anew when address, key or kind changed.

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

    def target(self, address: str) -> SshTarget:
        """Where and as whom an address leads, by the SSH configuration."""
        found = sshconfig.resolve(SshAddress.parse(address), self._config)
        return replace(found, identity_files=(*self._own_keys, *found.identity_files))

    def openssh(self, record: HostRecord, folder: Path) -> OpenSshWay:
        """The same way with the same pinned key for a program that brings its own SSH.

        ``folder`` is where its known_hosts will lie. The host must show the pinned key now.
        """
        target = self.target(record.address)
        via = self._through(target)
        try:
            pins = frozenset({record.host_key})
            key = public_key(target, pins, self._connect_s, _advice(record), via)
        finally:
            if via is not None:
                via.close()
        return openssh_way(record.name, target, self._jumps(target), key, folder)

    def user(self, record: HostRecord) -> str:
        """As whom programs run there."""
        if record.address == LOCAL:
            return pwd.getpwuid(os.geteuid()).pw_name
        return self.target(record.address).user

    def fingerprints(self, address: str) -> tuple[str, ...]:
        """The keys that the host shows, the one to pin first, without authenticating."""
        target = self.target(address)
        via = self._through(target)
        try:
            return fingerprints(target, self._connect_s, via)
        finally:
            if via is not None:
                via.close()

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
        return self._host(record, runner, lambda: self._local_bridge(record.name), _nothing), runner

    def _remote(self, record: HostRecord) -> tuple[Host, Runner]:
        target = self.target(record.address)
        connection = SshConnection(
            target,
            frozenset({record.host_key} - {""}),
            timeout_s=self._connect_s,
            advice=_advice(record),
            via=self._through(target),
        )
        return self._host(
            record, connection, lambda: _ssh_bridge(connection), connection.close
        ), connection

    def _host(
        self,
        record: HostRecord,
        runner: Runner,
        bridge: Callable[[], Bridge],
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
        return ReachedHost(
            record.name, helper, lambda: libvirt, close_all, installation=installation
        )

    def _through(self, target: SshTarget) -> SshConnection | None:
        return through(self._jumps(target), self._connect_s)

    def _jumps(self, target: SshTarget) -> tuple[SshTarget, ...]:
        return tuple(sshconfig.resolve(each, self._config) for each in target.jumps)

    def _local_bridge(self, name: str) -> Bridge:
        refused = "there is no socket of libvirtd"
        for path in self._sockets:
            try:
                return Bridge(SocketStream(path, self._connect_s))
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


def _advice(record: HostRecord) -> str:
    trust = f"vgpumgr host trust {record.name} --fingerprint SHA256:…"
    return f"{trust}   (after asking the host's owner)"


def _ssh_bridge(connection: SshConnection) -> Bridge:
    channel = connection.open(_VIRT_SSH_HELPER)
    try:
        channel.start()
        return Bridge(channel)
    except BaseException:
        channel.close()
        raise


def _nothing() -> None:
    """The local host has no connection to close."""
