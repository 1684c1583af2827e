"""The sealed part of the audit trail: its tree head, its records with their hashes, a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from vgpumgr.model.history import AuditRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeHead:
    """The trail's first ``size`` records are those of this ``root`` (32 bytes). ``origin`` names
    the fleet, and the epoch since which its ledger is this one.
    """

    origin: str
    size: int
    root: bytes


SignHead: TypeAlias = Callable[[TreeHead], str]
"""Makes the signed note of a tree head."""
OpenNote: TypeAlias = Callable[[str], TreeHead]
"""The tree head of a signed note; TrailTampered where no trusted key signed it."""


@dataclass(frozen=True, slots=True)
class KeptNote:
    """A signed checkpoint, and where it was kept."""

    where: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRecord:
    """A record, its number among sealed ones (from 0), the text that was hashed, and the
    hash in hex. ``consumption`` is what it took, or gave back, as far as the trail knows:
    ``gpu.seconds``, too.
    """

    record: AuditRecord
    leaf: int
    hash: str
    original: str
    consumption: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailPlace:
    """How far a check has come: the number of records, the ``edge`` of their tree in hex, the last
    one's ``seq``, and the number of its leaf. The next piece has ``most`` more (None: all).
    """

    size: int = 0
    edge: str = ""
    seq: int = 0
    leaf: int = -1
    most: int | None = None


BEGINNING = TrailPlace()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailVerdict:
    """What a check of the trail found: ``wrong`` names the first records that are not as sealed,
    ``checkpoints`` counts the signed ones that were compared. ``unsealed`` records are newer than
    the seal, the oldest of them made at ``unsealed_since`` (Unix seconds). A check that did not
    come to the end goes on at ``place``.
    """

    sealed: int
    checkpoints: int
    unsealed: int
    unsealed_since: float | None
    wrong: tuple[str, ...] = ()
    place: TrailPlace | None = None


class SealLedger(Protocol):
    """The seal of the trail in the ledger: a hash tree of its records, whose heads are signed."""

    def trail_origin(self) -> str:
        """The fleet, and the epoch since which its ledger is this one: since it was restored or
        moved, or from the beginning.
        """

    def seal_trail(self, sign: SignHead, most: int = ...) -> TreeHead | None:
        """Seal the oldest ``most`` records that are not sealed; the new head, None where all are.
        Damaged where the newest checkpoint is not one to go on from.
        """

    def newest_note(self) -> str:
        """The newest signed checkpoint; empty where there is none."""

    def sealed_records(self, after: int, most: int) -> tuple[SealedRecord, ...]:
        """The next ``most`` sealed records after that ``seq``, the oldest first."""

    def check_trail(
        self, open_note: OpenNote, kept: Sequence[KeptNote] = (), begin: TrailPlace = ...
    ) -> TrailVerdict:
        """Compare sealed records with their hashes, the tree with signed and with kept notes."""
