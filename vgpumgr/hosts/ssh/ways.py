"""The way to each host over SSH, by the user's SSH configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from vgpumgr.hosts.ssh import sshconfig
from vgpumgr.hosts.ssh.address import SshAddress
from vgpumgr.hosts.ssh.connection import SshConnection, fingerprints, public_key, through
from vgpumgr.hosts.ssh.openssh import OpenSshWay, openssh_way
from vgpumgr.hosts.ssh.sshconfig import SshTarget
from vgpumgr.model.errors import UsageError
from vgpumgr.model.host import HostRecord


class SshWays:
    """Resolves addresses, and connects with the pinned key. Times are seconds.

    ``own_key`` is tried before the keys of the SSH configuration, where the file exists.
    """

    def __init__(self, config: Path | None, own_key: Path | None, connect_s: float) -> None:
        if config is not None and not config.is_file():
            raise UsageError(f"{config} does not exist", next="correct ssh_config")
        self._config = (config,) if config else sshconfig.default_files()
        self._own_keys = (own_key,) if own_key else ()
        self._connect_s = connect_s

    def target(self, address: str) -> SshTarget:
        """Where and as whom an address leads."""
        found = sshconfig.resolve(SshAddress.parse(address), self._config)
        return replace(found, identity_files=(*self._own_keys, *found.identity_files))

    def connection(self, record: HostRecord) -> SshConnection:
        """A connection to be made at first use, to the host with the pinned key alone."""
        target = self.target(record.address)
        return SshConnection(
            target,
            frozenset({record.host_key} - {""}),
            timeout_s=self._connect_s,
            advice=_advice(record),
            via=through(self._jumps(target), self._connect_s),
        )

    def fingerprints(self, address: str) -> tuple[str, ...]:
        """The keys that the host shows, the one to pin first, without authenticating."""
        target = self.target(address)
        with self._through(target) as via:
            return fingerprints(target, self._connect_s, via)

    def openssh(self, record: HostRecord, folder: Path) -> OpenSshWay:
        """The same way with the same pinned key for a program that brings its own SSH.

        ``folder`` is where its known_hosts will lie. The host must show the pinned key now.
        """
        target = self.target(record.address)
        pins = frozenset({record.host_key})
        with self._through(target) as via:
            key = public_key(target, pins, self._connect_s, _advice(record), via)
        return openssh_way(record.name, target, self._jumps(target), key, folder)

    @contextmanager
    def _through(self, target: SshTarget) -> Iterator[SshConnection | None]:
        """The last jump host on the way to a target, for as long as the block lasts."""
        via = through(self._jumps(target), self._connect_s)
        try:
            yield via
        finally:
            if via is not None:
                via.close()

    def _jumps(self, target: SshTarget) -> tuple[SshTarget, ...]:
        return tuple(sshconfig.resolve(each, self._config) for each in target.jumps)


def _advice(record: HostRecord) -> str:
    trust = f"vgpumgr host trust {record.name} --fingerprint SHA256:…"
    return f"{trust}   (after asking the host's owner)"
