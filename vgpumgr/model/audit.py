"""The audit trail: one record for each change of state, written with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """Who changed what, when, and by which operation.

    ``event`` is a stable word (``vm.reserved``, ``allocation.released``, ``host.cordoned``,
    ``epoch.raised``); ``at`` is Unix time in seconds, ``seq`` orders records within a store.
    ``gpu`` is our id of the GPU, ``units`` the memory slots it is about, ``device`` what realises
    them on the host. ``before`` and ``after`` are the generations of the row that changed, or
    None where it has none. ``detail`` says in words what the other fields cannot.
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
