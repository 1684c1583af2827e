"""What the ledger keeps of the past, for what is to come: requests, and what was held when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.explanation import Explanation
from vgpumgr.model.vm import VmSpec


class Answer(StrEnum):
    """How a request was answered."""

    PLACED = "placed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """A VM as it was asked for at that time (Unix seconds). ``explanation`` is kept of refusals."""

    vm: str
    at: float
    answer: Answer
    spec: VmSpec
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """So many slots of a GPU were held from one time to another (Unix seconds; None: still)."""

    gpu: str
    profile: str
    units: int
    since: float
    until: float | None = None
