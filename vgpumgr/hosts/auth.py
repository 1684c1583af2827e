"""Proving to a host who we are: keys from files and from the agent; never a password."""

from __future__ import annotations

from collections.abc import Iterator

import paramiko

from vgpumgr.hosts.sshconfig import SshTarget
from vgpumgr.model.errors import NotPermitted


def authenticate(transport: paramiko.Transport, target: SshTarget) -> None:
    """Try each key; NotPermitted names what was tried and what could not be read."""
    tried: list[str] = []
    for label, key in _keys(target, tried):
        try:
            transport.auth_publickey(target.user, key)
        except paramiko.AuthenticationException:
            tried.append(f"{label} was not accepted")
        if transport.is_authenticated():
            return
        if not transport.is_active():
            tried.append("the host hung up")
            break
    raise NotPermitted(
        f"{target} does not let us in",
        why="; ".join(tried) or "there is no key to try",
        next=f"ssh-copy-id -p {target.port} {target.user}@{target.host}",
    )


def _keys(target: SshTarget, tried: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
    """Keys with a label each; files that cannot be used are noted in ``tried``."""
    for path in target.identity_files:
        try:
            yield str(path), paramiko.PKey.from_path(path)
        except FileNotFoundError:
            continue
        except (OSError, TypeError, ValueError, paramiko.SSHException) as error:
            # TypeError: how cryptography says that a key is encrypted.
            tried.append(f"{path} cannot be used ({error})")
    if not target.identities_only:
        yield from ((f"agent key {key.get_name()}", key) for key in _agent_keys())


def _agent_keys() -> tuple[paramiko.PKey, ...]:
    try:
        return tuple(paramiko.Agent().get_keys())
    except (OSError, paramiko.SSHException):
        return ()
