"""Host keys: fingerprints, and what the user's known_hosts files say."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import paramiko

from vgpumgr.model.errors import UsageError

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def fingerprint_of(key: paramiko.PKey) -> str:
    """``SHA256:…`` without padding, as ``ssh-keygen -lf`` prints it."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def check_fingerprint(text: str) -> str:
    """The text itself; UsageError when it cannot be a fingerprint."""
    if _FINGERPRINT.fullmatch(text.rstrip("=")) is None:
        raise UsageError(
            f"{text[:80]!r} is not a fingerprint",
            why="SHA256: and 43 characters are expected",
            next="on the host: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
        )
    return text.rstrip("=")


def known_fingerprints(name: str, files: tuple[Path, ...] | None = None) -> frozenset[str]:
    """Fingerprints that the user's and the system's known_hosts files have for ``name``."""
    found: set[str] = set()
    for path in _default_files() if files is None else files:
        keys = paramiko.HostKeys()
        try:
            keys.load(str(path))
        except (OSError, UnicodeDecodeError, paramiko.SSHException):
            continue  # a file that cannot be read vouches for nobody
        entries = keys.lookup(name)
        found |= {fingerprint_of(key) for key in (entries or {}).values()}
    return frozenset(found)


def _default_files() -> tuple[Path, ...]:
    return (Path.home() / ".ssh" / "known_hosts", Path("/etc/ssh/ssh_known_hosts"))
