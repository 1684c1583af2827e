"""The numbers by which a GPU is recognised."""

from __future__ import annotations

import uuid
from hashlib import sha256


def identity(seed: int, address: str) -> tuple[str, str]:
    """UUID and serial number: the same at every boot, and of no other GPU of the fleet."""
    digest = sha256(f"{seed} {address}".encode()).digest()
    number = int.from_bytes(digest[16:20], "big")
    return f"GPU-{uuid.UUID(bytes=digest[:16])}", str(1_320_000_000_000 + number)
