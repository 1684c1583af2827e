"""Xids: what the NVIDIA driver reports of a GPU in trouble, and what is to be done."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, final

from vgpumgr.catalog.shipped_tables import sources, table


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One Xid. None: known by name only.

    ``severity`` is ``fatal`` or ``nonfatal``, ``action`` NVIDIA's word (``RESET_GPU``). ``drain``
    is worked out from the action: the GPU should take no new work. Without it ``needs_reset`` is
    for the next occasion. Where NVML tells a recovery action, that wins over any Xid.
    """

    number: int
    name: str
    severity: str | None
    action: str | None
    needs_reset: bool | None
    needs_host_restart: bool | None
    drain: bool | None
    source: str
    verified: bool


def xid(number: int) -> Xid | None:
    """The Xid of this number; None where it is not listed.

    Source: NVIDIA NVSentinel's mapping (1-162), nverror.h of the open kernel modules (163-176),
    NVIDIA's memory-error pages and Xid catalogue (63, 160, 161, 171, 172).
    """
    return _by_number().get(number)


@cache
def _by_number() -> dict[int, Xid]:
    return {row["xid"]: _xid(row) for row in table("xid")["xids"]}


def _xid(row: dict[str, Any]) -> Xid:
    return Xid(
        number=row["xid"],
        name=row["name"],
        severity=row["severity"],
        action=row["action"],
        needs_reset=row["needs_reset"],
        needs_host_restart=row["needs_host_restart"],
        drain=row["drain"],
        source=sources("xid", row["source"]),
        verified=row["verified"],
    )
