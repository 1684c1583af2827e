"""A password that two sides make of each other's public keys, and that is never written down."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from vgpumgr.model.errors import UsageError

LENGTH = 8
"""All that a VNC password may have."""
# 32 of them, none of which looks like another: 40 bits, for a handful of tries.
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


class Half:
    """One side's key pair. ``public`` is text for the other side, and no secret."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = base64.urlsafe_b64encode(
            self._private.public_key().public_bytes_raw()
        ).decode()

    def password(self, other: str) -> str:
        """The same for both sides; UsageError where ``other`` is no public key."""
        try:
            key = X25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(other))
            shared = self._private.exchange(key)
        except ValueError as error:
            raise UsageError("the ticket has no public key", why=str(error)) from error
        made = HKDF(SHA256(), LENGTH, salt=None, info=b"vgpumgr ticket").derive(shared)
        return "".join(_LETTERS[byte % len(_LETTERS)] for byte in made)
