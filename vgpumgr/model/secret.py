"""Secrets: a value that never shows itself, and what the ledger knows of one, which is no value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, final

MAX_SECRET_BYTES = 64 << 10
MOST_SECRETS = 200
"""How many a tenant may have."""


@final
class SecretValue:
    """The bytes of a secret. Only ``reveal`` tells them: no text or dump made of it does."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The bytes, for who uses them."""
        return self._value

    def __len__(self) -> int:
        return len(self._value)

    def __repr__(self) -> str:
        return "SecretValue(…)"

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return repr(self)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not written anywhere but to its own file")


class SecretState(StrEnum):
    """The value of a secret as it is here: as it was set, another one, none, or one that cannot be
    read; ``UNRECORDED`` is a value of which the ledger does not know.
    """

    PRESENT = "present"
    CHANGED = "changed"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNRECORDED = "unrecorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRecord:
    """What the ledger has of a secret of a tenant (``*``: of the fleet). ``digest`` is keyed, by a
    key that lies with the values: without it no guess can be tried. Times are Unix seconds.
    """

    tenant: str
    name: str
    digest: str
    set_at: float
    set_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    """Something that uses a secret: ``user`` is a thing with its kind, like ``host gpu-1``."""

    tenant: str
    name: str
    user: str


class SecretPaths(Protocol):
    """Where programs read secrets."""

    def path(self, tenant: str, name: str) -> Path:
        """The file of a secret of that tenant; raises what :meth:`SecretReader.read` does."""


class SecretReader(Protocol):
    """Where values are read by what uses them."""

    def read(self, tenant: str, name: str) -> SecretValue:
        """A secret of exactly that tenant; NotFound, or NotPermitted where its file is not safe."""


class SecretLedger(Protocol):
    """Secrets in the ledger. Every method is one transaction, and no value ever comes here."""

    def secrets(self) -> tuple[SecretRecord, ...]:
        """Every secret, by tenant and name."""

    def secret_references(self) -> tuple[SecretReference, ...]:
        """What uses secrets, by tenant, name and user."""

    def set_secret(self, tenant: str, name: str, digest: str) -> None:
        """Note that a secret was set; Conflict where the tenant has too many."""

    def remove_secret(self, tenant: str, name: str, *, force: bool = False) -> None:
        """Forget a secret; NotFound, or InUse where something uses it, unless ``force``."""


def by_secret(references: tuple[SecretReference, ...]) -> Mapping[tuple[str, str], list[str]]:
    """The users of each secret, by its tenant and name."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in references:
        found.setdefault((each.tenant, each.name), []).append(each.user)
    return found
