"""A way to a host as OpenSSH's own files say it, for programs that bring OpenSSH along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpumgr.hosts.ssh.sshconfig import SshTarget

# HostKeyAlias of a pinned host: a name that no other known_hosts file speaks of.
_PINNED = "vgpumgr-pinned-{}"


@dataclass(frozen=True, slots=True)
class OpenSshWay:
    """Parts of an ``ssh_config`` and of a ``known_hosts`` file; ``ssh -F ssh_config NAME``."""

    config: str
    known_hosts: str


def openssh_way(
    name: str, target: SshTarget, jumps: Sequence[SshTarget], public_key: str, folder: Path
) -> OpenSshWay:
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
    return OpenSshWay("\n".join(blocks), f"{alias} {public_key}\n")


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
