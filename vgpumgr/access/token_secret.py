"""The secrets of tokens and logins: how they look, and the digest by which they are found.

A secret has 256 bits of chance, so its plain SHA-256 is as hard to reverse as the secret is to
guess; a look-up by digest compares nothing that an attacker chose byte by byte.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode

TOKEN_PREFIX = "vgm_"  # noqa: S105
SECRET_BYTES = 32
_TOKEN = re.compile(r"vgm_[A-Za-z0-9_-]{43}")


def token_text(chance: bytes) -> str:
    """The text of a token made of 32 bytes of chance."""
    if len(chance) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(chance)}")
    return TOKEN_PREFIX + urlsafe_b64encode(chance).decode().rstrip("=")


def looks_like_token(text: str) -> bool:
    """Whether a text can be a token at all."""
    return _TOKEN.fullmatch(text) is not None


def secret_digest(text: str) -> str:
    """The SHA-256 of a secret, in hexadecimal: what the ledger keeps of it."""
    return hashlib.sha256(text.encode()).hexdigest()
