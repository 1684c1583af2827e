"""Proving to a host who we are: keys from files and from the agent; never a password."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import paramiko

from vgpumgr.hosts.ssh.sshconfig import SshTarget
from vgpumgr.model.errors import NotPermitted


def authenticate(transport: paramiko.Transport, target: SshTarget) -> None:
    """Try each key; NotPermitted names what was tried and what could not be read."""
    tried: list[str] = []
    with closing(_keys(target, tried)) as keys:
        for label, key in keys:
            if _accepted(transport, target.user, key):
                return
            tried.append(f"{label} was not accepted")
            if not transport.is_active():
                tried.append("the host hung up")
                break
    raise NotPermitted(
        f"{target} denies access",
        why="; ".join(tried) or "there is no key to try",
        next=f"ssh-copy-id -p {target.port} {target.user}@{target.host}",
    )


def _accepted(transport: paramiko.Transport, user: str, key: paramiko.PKey) -> bool:
    try:
        transport.auth_publickey(user, key)
    except (paramiko.SSHException, EOFError, OSError):
        return False
    return transport.is_authenticated()


def _keys(target: SshTarget, tried: list[str]) -> Generator[tuple[str, paramiko.PKey], None, None]:
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
        yield from _agent_keys()


def _agent_keys() -> Generator[tuple[str, paramiko.PKey], None, None]:
    """The agent's keys; it is asked to sign while the caller uses them."""
    try:
        agent = paramiko.Agent()
    except (OSError, paramiko.SSHException):
        return
    with closing(agent):
        yield from ((f"agent key {key.get_name()}", key) for key in agent.get_keys())
