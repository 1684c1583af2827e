"""The start of an SSH connection: host key checked first, then authentication by key."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Generator
from contextlib import closing

import paramiko

from vgpumgr.hosts.ssh.host_keys import fingerprint_of, known_keys
from vgpumgr.hosts.ssh.ssh_config import SshTarget
from vgpumgr.model.errors import HostKeyChanged, HostUnreachable, NotPermitted


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


KEEPALIVE_S = 15
_DEAD_AFTER_MS = 2 * KEEPALIVE_S * 1000

# A host may have keys of several types and be pinned by any one of them. Ours first.
_KEY_FAMILIES = (
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "rsa-sha2-256"),
)

# How paramiko says that a host has no key of the types that we asked for.
_NO_SUCH_KEY = "no acceptable host key"

# What we speak: nothing with SHA-1 or MD5 in it, no 3DES, no CBC. All are in Debian 11's sshd.
_CIPHERS = (
    *("aes256-gcm@openssh.com", "aes128-gcm@openssh.com"),
    *("aes256-ctr", "aes192-ctr", "aes128-ctr"),
)
_MACS = (
    *("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com"),
    *("hmac-sha2-256", "hmac-sha2-512"),
)
_EXCHANGES = (
    *("mlkem768x25519-sha256", "curve25519-sha256", "curve25519-sha256@libssh.org"),
    *("ecdh-sha2-nistp256", "ecdh-sha2-nistp384", "ecdh-sha2-nistp521"),
    *("diffie-hellman-group16-sha512", "diffie-hellman-group18-sha512"),
    *("diffie-hellman-group-exchange-sha256", "diffie-hellman-group14-sha256"),
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
            _require_not_revoked(target, found[-1])
    if not found:
        raise HostUnreachable(f"{target} has no host key of a type that we know")
    return tuple(found)


def verified(
    target: SshTarget, dialled: Dial, timeout_s: float, pins: frozenset[str], advice: str
) -> paramiko.Transport:
    """A transport to a host that proved to have one of the pinned keys; not authenticated yet.

    HostKeyChanged, with ``advice`` on what to do, when it showed none of them, or one that a
    known_hosts file revokes.
    """
    seen: list[str] = []
    for family in _KEY_FAMILIES:
        transport = _negotiated(target, dialled, timeout_s, family)
        if transport is None:
            continue
        shown = fingerprint_of(transport.get_remote_server_key())
        if shown in pins and shown not in known_keys(target.known_as).revoked:
            transport.set_keepalive(KEEPALIVE_S)
            return transport
        transport.close()
        _require_not_revoked(target, shown)
        seen.append(shown)
    raise HostKeyChanged(
        f"the SSH key of {target.host} is not the pinned key",
        why=f"it presents {', '.join(seen) or 'no known key'}; pinned is "
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
        _restrict(transport, family)
        transport.start_client(timeout=timeout_s)
        _require_keys(transport, timeout_s)
    except paramiko.ssh_exception.IncompatiblePeer as error:
        transport.close()
        if _NO_SUCH_KEY in str(error):
            return None
        raise HostUnreachable(
            f"{target} and vgpumgr have no safe SSH algorithm in common",
            why=f"{error}; 3DES, CBC, MD5 and SHA-1 are not spoken here",
            next="on the host, as root: sshd -T | grep -E '^(ciphers|macs|kexalgorithms)', and "
            "correct /etc/ssh/sshd_config",
        ) from error
    except (OSError, EOFError, paramiko.SSHException) as error:
        transport.close()
        raise HostUnreachable(
            f"{target} does not answer as an SSH server",
            why=str(error) or type(error).__name__,
            next=f"ssh -v -p {target.port} {target.user}@{target.host}",
        ) from error
    return transport


def _restrict(transport: paramiko.Transport, family: tuple[str, ...]) -> None:
    """Host keys of this family, and our algorithms, as far as paramiko has them."""
    options = transport.get_security_options()
    options.key_types = [each for each in family if each in options.key_types]
    options.ciphers = [each for each in _CIPHERS if each in options.ciphers]
    options.digests = [each for each in _MACS if each in options.digests]
    options.kex = [each for each in _EXCHANGES if each in options.kex]


def _require_not_revoked(target: SshTarget, shown: str) -> None:
    where = known_keys(target.known_as).revoked.get(shown)
    if where:
        raise HostKeyChanged(
            f"the SSH key of {target.host} is revoked",
            why=f"it shows {shown}, which {where} marks @revoked",
            next="give the host new keys (there: ssh-keygen -A, the old ones removed), then: "
            "vgpumgr host trust NAME --fingerprint SHA256:…",
        )


def _require_keys(transport: paramiko.Transport, timeout_s: float) -> None:
    """At its timeout paramiko comes back without a word, and without a key."""
    if not transport.initial_kex_done:
        raise paramiko.SSHException(f"no keys exchanged within {timeout_s:g} s")
