"""History in the ledger: answered requests, past allocations, the audit trail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.codec import to_plain
from vgpumgr.model.json_times import timed
from vgpumgr.model.placement import Explanation
from vgpumgr.model.vm import VmSpec


class RequestOutcome(StrEnum):
    """How a request was answered."""

    PLACED = "placed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """A VM as it was asked for at that time (Unix seconds). ``explanation`` is kept of refusals."""

    vm: str
    at: float
    answer: RequestOutcome
    spec: VmSpec
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A number of slots of a GPU, held from one time to another (Unix seconds; None: still)."""

    gpu: str
    profile: str
    units: int
    since: float
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """Who changed what, when, and by which operation.

    ``event`` is a stable word (``vm.reserved``, ``allocation.released``, ``host.cordoned``,
    ``epoch.raised``); ``at`` is Unix time in seconds, ``seq`` orders records within a store.
    ``gpu`` is our id of the GPU, ``units`` the memory slots it is about, ``device`` what realises
    them on the host. ``before`` and ``after`` are the generations of the row that changed, or
    None where it has none. ``detail`` says in words what the other fields cannot.

    ``by`` is who did it, ``asked_by`` who asked for the operation that it is part of and
    ``asked_tenant`` for whom (empty: of none). ``tenant``, ``method``, ``address`` and
    ``credential`` are those of the :class:`Actor` (``by``). ``consumption`` is what is taken:
    ``vcpus``, ``memory_mib``, ``gpu.units`` (slots), ``gpu.memory_mib``.
    """

    seq: int
    at: float
    by: str
    event: str
    operation: str = ""
    task: str = ""
    vm: str = ""
    host: str = ""
    gpu: str = ""
    allocation: str = ""
    profile: str = ""
    device: str = ""
    units: tuple[int, ...] = ()
    before: int | None = None
    after: int | None = None
    detail: str = ""
    tenant: str = ""
    method: str = ""
    address: str = ""
    credential: str = ""
    consumption: Mapping[str, int] = field(default_factory=dict)
    asked_by: str = ""
    asked_tenant: str = ""


def record_json(record: AuditRecord) -> str:
    """The record as those have it that follow the trail: streams of events, webhooks."""
    return json.dumps(timed(to_plain(record)), separators=(",", ":"))


class AccessEvent(StrEnum):
    """Logins in the trail, which are no changes."""

    LOGIN = "access.login"
    REFUSED = "access.refused"


class UploadEvent(StrEnum):
    """Image files in the trail that a user sends to the controller, or sends no more."""

    BEGUN = "image.upload-begun"
    DISCARDED = "image.upload-discarded"


@dataclass(frozen=True, slots=True)
class TrailChanges:
    """Where the trail ends, and the hosts that records are about: (``seq``, name) each, the name
    empty where a record may be about every host.
    """

    end: int
    hosts: tuple[tuple[int, str], ...]
