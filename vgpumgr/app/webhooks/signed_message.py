"""What a receiver is sent: a record of the trail as JSON, signed as Standard Webhooks says."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Mapping, Sequence

from vgpumgr.model.errors import LedgerError

SECRET_BYTES = 32
_PREFIX = "whsec_"


def new_secret() -> str:
    """A secret as receivers are given it: ``whsec_`` and base64."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def secret_key(secret: str) -> bytes:
    """The key in a secret; LedgerError for a text that is none."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if len(key) < SECRET_BYTES:
        raise LedgerError("the webhook's secret cannot be used", why="its file holds no secret")
    return key


def signed_headers(
    keys: Sequence[bytes], message_id: str, at: float, body: bytes
) -> Mapping[str, str]:
    """The headers that tell a receiver which message it is, of when, and that it is ours: a
    signature by each key.

    ``message_id`` is the same at every attempt, so that a receiver can drop what it has.
    """
    seconds = str(int(at))
    signed = b".".join((message_id.encode(), seconds.encode(), body))
    proofs = [base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{each}" for each in proofs),
    }
