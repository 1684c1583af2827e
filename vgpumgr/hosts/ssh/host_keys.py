"""Host keys: fingerprints, and the entries of the user's known_hosts files."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import paramiko

from vgpumgr.model.errors import UsageError

# sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
_REVOKED, _AUTHORITY, _HASHED = "@revoked", "@cert-authority", "|1|"

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def fingerprint_of(key: paramiko.PKey) -> str:
    """``SHA256:…`` without padding, as ``ssh-keygen -lf`` prints it."""
    return _fingerprint(key.asbytes())


def _fingerprint(key: bytes) -> str:
    digest = hashlib.sha256(key).digest()
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


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """What known_hosts files say of one name: fingerprints, each ``FILE:LINE`` of a revoked one,
    and of lines that would accept certificates, which we do not understand.

    A key that is revoked anywhere is never among those that are ``accepted``.
    """

    accepted: frozenset[str]
    revoked: Mapping[str, str]
    authorities: tuple[str, ...]


def known_keys(name: str, files: Sequence[Path] | None = None) -> KnownKeys:
    """The user's and the system's known_hosts files on ``name``; lines that make no sense say
    nothing, and a file that cannot be read vouches for nobody.
    """
    found: dict[str, dict[str, str]] = {"": {}, _REVOKED: {}, _AUTHORITY: {}}
    for path in _default_files() if files is None else files:
        for number, line in enumerate(_lines(path), 1):
            marker, patterns, key = _entry(line)
            if key and marker in found and _speaks_of(patterns, name):
                found[marker].setdefault(key, f"{path}:{number}")
    revoked = found[_REVOKED]
    accepted = frozenset(found[""].keys() - revoked.keys())
    return KnownKeys(accepted, revoked, tuple(found[_AUTHORITY].values()))


def known_fingerprints(name: str, files: tuple[Path, ...] | None = None) -> frozenset[str]:
    """Fingerprints that known_hosts files accept for ``name``."""
    return known_keys(name, files).accepted


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode(errors="replace").splitlines()
    except OSError:
        return []


def _entry(line: str) -> tuple[str, str, str]:
    """Marker, host patterns and fingerprint of a line; the last is empty where there is no key."""
    words = line.split()
    marker = words.pop(0) if words and words[0].startswith("@") else ""
    if len(words) < 3 or words[0].startswith("#"):
        return marker, "", ""
    try:
        return marker, words[0], _fingerprint(base64.b64decode(words[2], validate=True))
    except ValueError:
        return marker, "", ""


def _speaks_of(patterns: str, name: str) -> bool:
    if not patterns.startswith(_HASHED):
        return _any_of(patterns.split(","), name)
    try:
        salt, digest = (base64.b64decode(each) for each in patterns[len(_HASHED) :].split("|"))
    except ValueError:
        return False
    return hmac.compare_digest(hmac.digest(salt, name.lower().encode(), "sha1"), digest)


def _any_of(patterns: list[str], name: str) -> bool:
    """A pattern list: one must match, and none that is negated with ``!``."""
    folded = name.lower()
    for pattern in patterns:
        if pattern.startswith("!") and _like(pattern[1:], folded):
            return False
    return any(_like(each, folded) for each in patterns if not each.startswith("!"))


def _like(pattern: str, name: str) -> bool:
    # OpenSSH knows * and ? only: a bracket is an ordinary character there.
    return fnmatchcase(name, pattern.lower().replace("[", "[[]"))


def _default_files() -> tuple[Path, ...]:
    return (Path.home() / ".ssh" / "known_hosts", Path("/etc/ssh/ssh_known_hosts"))
