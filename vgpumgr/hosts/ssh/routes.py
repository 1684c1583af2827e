"""Routes to hosts over SSH by the user's configuration, for us and, as files, for OpenSSH."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vgpumgr.hosts.ssh.ssh_config import SshAddress, SshTarget, resolve
from vgpumgr.hosts.ssh.ssh_connection import SshConnection, fingerprints, public_key, through
from vgpumgr.model.errors import UsageError
from vgpumgr.model.host import HostRecord

# HostKeyAlias of a pinned host: a name that no other known_hosts file speaks of.
_PINNED = "vgpumgr-pinned-{}"


@dataclass(frozen=True, slots=True)
class OpenSshRoute:
    """Parts of an ``ssh_config`` and of a ``known_hosts`` file; ``ssh -F ssh_config NAME``."""

    config: str
    known_hosts: str


def openssh_route(
    name: str, target: SshTarget, jumps: Sequence[SshTarget], public_key: str, folder: Path
) -> OpenSshRoute:
    """The way to ``target`` under ``name``, through ``jumps``, accepting ``public_key`` alone.

    ``folder`` is where the file ``known_hosts`` will lie. Jump hosts are checked against the
    user's own known_hosts files, as everywhere.
    """
    alias = _PINNED.format(name)
    pinned = {
        "HostKeyAlias": alias,
        "UserKnownHostsFile": _quoted(folder / "known_hosts"),
        "GlobalKnownHostsFile": "/dev/null",
    }
    blocks = []
    before: dict[str, str] = {}
    for number, jump in enumerate(jumps):
        through = f"{name}.jump{number}"
        alias_of_jump = {"HostKeyAlias": jump.key_alias} if jump.key_alias else {}
        blocks.append(_block(through, jump, {**alias_of_jump, **before}))
        before = {"ProxyJump": through}
    blocks.append(_block(name, target, {**pinned, **before}))
    return OpenSshRoute("\n".join(blocks), f"{alias} {public_key}\n")


def _block(name: str, target: SshTarget, more: dict[str, str]) -> str:
    lines = {
        "HostName": target.host.replace("%", "%%"),
        "Port": str(target.port),
        "User": target.user,
        "IdentitiesOnly": "yes" if target.identities_only else "no",
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "MACs": "-*sha1*,*md5*,umac-64*",
        "ServerAliveInterval": "15",
        **more,
    }
    files = (f"  IdentityFile {_quoted(file)}" for file in target.identity_files)
    settings = (f"  {key} {value}" for key, value in lines.items())
    return "\n".join([f"Host {name}", *settings, *files, ""])


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


class SshRoutes:
    """Resolves addresses, and connects with the pinned key. Times are seconds.

    ``own_key`` is tried before the keys of the SSH configuration, where the file exists.
    """

    def __init__(self, config: Path | None, own_key: Path | None, connect_s: float) -> None:
        if config is not None and not config.is_file():
            raise UsageError(f"{config} does not exist", next="correct ssh_config")
        self._config = config
        self._resolved: dict[SshAddress, SshTarget] = {}
        self._own_keys = (own_key,) if own_key else ()
        self._connect_s = connect_s

    def target(self, address: str) -> SshTarget:
        """Where and as whom an address leads."""
        found = self._resolve(SshAddress.parse(address))
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

    def openssh(self, record: HostRecord, folder: Path) -> OpenSshRoute:
        """The same way with the same pinned key for a program that brings its own SSH.

        ``folder`` is where its known_hosts will lie. The host must show the pinned key now.
        """
        target = self.target(record.address)
        pins = frozenset({record.host_key})
        with self._through(target) as via:
            key = public_key(target, pins, self._connect_s, _advice(record), via)
        return openssh_route(record.name, target, self._jumps(target), key, folder)

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
        return tuple(map(self._resolve, target.jumps))

    def _resolve(self, address: SshAddress) -> SshTarget:
        """By the SSH configuration, which is read once for an address."""
        if address not in self._resolved:
            self._resolved[address] = resolve(address, self._config)
        return self._resolved[address]


def _advice(record: HostRecord) -> str:
    trust = f"vgpumgr host trust {record.name} --fingerprint SHA256:…"
    return f"{trust}   (after asking the host's owner)"
