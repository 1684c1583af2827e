"""Checkpoints of the trail as signed notes, which witnesses and other verifiers read.

The formats are C2SP's: ``signed-note`` (Ed25519), ``tlog-checkpoint``, and the encoded verifier
key ``NAME+KEYID+KEY``. A key's name is the checkpoint's origin.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vgpumgr.model.errors import TrailTampered, UsageError
from vgpumgr.model.sealed_trail import TreeHead

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_ED25519 = b"\x01"
_ID_BYTES, _KEY_BYTES, _ROOT_BYTES = 4, 32, 32
_DASH = "\N{EM DASH}"
MAX_NOTE = 64 * 1024


def body(head: TreeHead) -> str:
    """The text that is signed."""
    return f"{head.origin}\n{head.size}\n{_base64(head.root)}\n"


def sign_note(head: TreeHead, key: Ed25519PrivateKey) -> str:
    """The note of a tree head, signed."""
    text = body(head)
    signature = _key_id(head.origin, _raw(key)) + key.sign(text.encode())
    return f"{text}\n{_DASH} {head.origin} {_base64(signature)}\n"


def open_note(note: str, keys: Iterable[bytes]) -> TreeHead:
    """The tree head of a note that one of these public keys (32 bytes each) signed;
    TrailTampered otherwise.
    """
    text, found, signatures = note.partition("\n\n")
    head = _head(f"{text}\n") if found and len(note) <= MAX_NOTE else None
    if head is None:
        raise _untrusted("it is not a checkpoint")
    for key in keys:
        if any(_is_signed(f"{text}\n", line, head.origin, key) for line in signatures.split("\n")):
            return head
    raise _untrusted("none of the given keys has signed it")


def verifier_key(origin: str, key: bytes) -> str:
    """A public key (32 bytes) in the text form that verifiers of notes take."""
    return f"{origin}+{_key_id(origin, key).hex()}+{_base64(_ED25519 + key)}"


def public_key(text: str) -> bytes:
    """The 32 bytes of a public key as PEM or as a verifier key; UsageError for what is neither."""
    if text.lstrip().startswith("-----BEGIN"):
        return _of_pem(text)
    key = _of_base64(text.strip().split("+", 2)[-1])
    if len(key) != 1 + _KEY_BYTES or not key.startswith(_ED25519):
        raise UsageError("that is not the public key of an audit trail", next=_PRINT)
    return key[1:]


_PRINT = "on the controller: vgpumgr audit checkpoint --public-key"


def _of_pem(text: str) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError("that is no public key in PEM", why=str(error), next=_PRINT) from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError("that is a public key, but not one of Ed25519", next=_PRINT)
    return key.public_bytes_raw()


def _raw(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def _is_signed(text: str, line: str, origin: str, key: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    dash, _, rest = line.partition(" ")
    name, _, coded = rest.rpartition(" ")
    signature = _of_base64(coded)
    if (dash, name) != (_DASH, origin) or signature[:_ID_BYTES] != _key_id(origin, key):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature[_ID_BYTES:], text.encode())
    except InvalidSignature:
        return False
    return True


def _head(text: str) -> TreeHead | None:
    origin, *lines = text.split("\n")
    if len(lines) < 3 or not origin or not (lines[0].isascii() and lines[0].isdigit()):
        return None
    root = _of_base64(lines[1])
    well_formed = len(root) == _ROOT_BYTES and str(int(lines[0][:20])) == lines[0]
    return TreeHead(origin=origin, size=int(lines[0]), root=root) if well_formed else None


def _key_id(name: str, key: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + key).digest()[:_ID_BYTES]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _of_base64(text: str) -> bytes:
    """Its bytes; none for what is not Base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _untrusted(why: str) -> TrailTampered:
    return TrailTampered(
        "the checkpoint cannot be trusted",
        why=why,
        next="vgpumgr audit verify --key KEY   (each key that checkpoints were signed with)",
    )
