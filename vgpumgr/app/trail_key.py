"""The key that signs checkpoints of the audit trail: a file outside of the ledger."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.audit import signed_note
from vgpumgr.model.errors import LedgerError, NotFound
from vgpumgr.model.sealed_trail import TreeHead

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_NAME = "audit_ed25519"


class TrailKey:
    """The private key of one controller."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def sign(self, head: TreeHead) -> str:
        """The signed note of a tree head."""
        return signed_note.sign_note(head, self._key)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def public_pem(self) -> str:
        """The public key in PEM, as other programs read it."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return self._key.public_key().public_bytes(*form).decode()


def trail_key(folder: Path) -> TrailKey:
    """The key in that folder; NotFound where none was made yet."""
    path = folder / _NAME
    try:
        return TrailKey(_read(path))
    except FileNotFoundError as error:
        raise NotFound(
            "this controller has sealed nothing yet, and has no key",
            why=f"there is no {path}",
            next="vgpumgr audit seal, or --key with the public key of the controller that seals",
        ) from error


def made_key(folder: Path) -> TrailKey:
    """The key in that folder, made at its first use; LedgerError where it cannot be."""
    path = folder / _NAME
    try:
        if not path.exists():
            _make(path)
        return TrailKey(_read(path))
    except OSError as error:
        raise LedgerError(
            "the key of the audit trail cannot be made",
            why=f"{error.strerror or error}: {path}",
            next=f"ls -ld {folder}",
        ) from error


def _read(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise _unusable(path, "it is no key in PEM") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _unusable(path, "it is not a key of Ed25519")
    return key


def _unusable(path: Path, why: str) -> LedgerError:
    return LedgerError(
        "the key of the audit trail cannot be used",
        why=f"{path}: {why}",
        next=f"put {path} back from a copy; or move it away, and a new one is made",
    )


def _make(path: Path) -> None:
    """Whole or not at all, and never over one that another process made meanwhile."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    text = Ed25519PrivateKey.generate().private_bytes(*form)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
