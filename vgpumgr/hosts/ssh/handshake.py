"""From a target to an SSH transport whose host key was checked, before anything is sent to it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

import paramiko

from vgpumgr.hosts.ssh.hostkey import fingerprint_of
from vgpumgr.hosts.ssh.sshconfig import SshTarget
from vgpumgr.model.errors import HostKeyChanged, HostUnreachable

KEEPALIVE_S = 15
_DEAD_AFTER_MS = 2 * KEEPALIVE_S * 1000

# A host may have keys of several types and be pinned by any one of them. Ours first.
_KEY_FAMILIES = (
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "rsa-sha2-256"),
)

Dial = Callable[[], "socket.socket | paramiko.Channel"]

# paramiko logs what it also raises; without a handler Python would print that to stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


def dial(target: SshTarget, timeout_s: float) -> socket.socket:
    """A TCP connection; HostUnreachable says which of name, network or port failed."""
    where = f"{target.host}:{target.port}"
    try:
        sock = socket.create_connection((target.host, target.port), timeout_s)
    except socket.gaierror as error:
        raise HostUnreachable(
            f"{target.host} does not resolve",
            why=error.strerror or str(error),
            next=f"getent hosts {target.host}",
        ) from error
    except (OSError, UnicodeError) as error:
        raise HostUnreachable(
            f"{where} cannot be reached",
            why=str(error),
            next=f"ssh -v -p {target.port} {target.user}@{target.host}",
        ) from error
    # With keep-alives unanswered for this long the kernel breaks the connection for us.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_AFTER_MS)
    return sock


def shown_keys(target: SshTarget, dialled: Dial, timeout_s: float) -> tuple[str, ...]:
    """The fingerprints of all keys the host proves to have, ours-first; nothing is sent."""
    found: list[str] = []
    for family in _KEY_FAMILIES:
        transport = _negotiated(target, dialled, timeout_s, family)
        if transport is not None:
            found.append(fingerprint_of(transport.get_remote_server_key()))
            transport.close()
    if not found:
        raise HostUnreachable(f"{target} has no host key of a type that we know")
    return tuple(found)


def verified(
    target: SshTarget, dialled: Dial, timeout_s: float, pins: frozenset[str], advice: str
) -> paramiko.Transport:
    """A transport to a host that proved to have one of the pinned keys; not authenticated yet.

    HostKeyChanged, with ``advice`` on what to do, when it showed none of them.
    """
    seen: list[str] = []
    for family in _KEY_FAMILIES:
        transport = _negotiated(target, dialled, timeout_s, family)
        if transport is None:
            continue
        shown = fingerprint_of(transport.get_remote_server_key())
        if shown in pins:
            transport.set_keepalive(KEEPALIVE_S)
            return transport
        transport.close()
        seen.append(shown)
    raise HostKeyChanged(
        f"the SSH key of {target.host} is not the pinned one",
        why=f"it shows {', '.join(seen) or 'no known key'}; pinned is "
        f"{', '.join(sorted(pins)) or 'none'}",
        next=advice,
    )


def _negotiated(
    target: SshTarget, dialled: Dial, timeout_s: float, family: tuple[str, ...]
) -> paramiko.Transport | None:
    """Keys exchanged with a host key of this family, or None when the host has none of it."""
    sock = dialled()
    transport = paramiko.Transport(sock)
    transport.banner_timeout = transport.auth_timeout = transport.channel_timeout = timeout_s
    try:
        known = [each for each in family if each in transport.get_security_options().key_types]
        transport.get_security_options().key_types = known
        transport.start_client(timeout=timeout_s)
        _require_keys(transport, timeout_s)
    except paramiko.ssh_exception.IncompatiblePeer:
        transport.close()
        return None
    except (OSError, EOFError, paramiko.SSHException) as error:
        transport.close()
        raise HostUnreachable(
            f"{target} does not speak SSH to us",
            why=str(error) or type(error).__name__,
            next=f"ssh -v -p {target.port} {target.user}@{target.host}",
        ) from error
    return transport


def _require_keys(transport: paramiko.Transport, timeout_s: float) -> None:
    """At its timeout paramiko comes back without a word, and without a key."""
    if not transport.initial_kex_done:
        raise paramiko.SSHException(f"no keys exchanged within {timeout_s:g} s")
