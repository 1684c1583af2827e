"""Xids and recovery actions: what the NVIDIA driver says of a GPU in trouble, and what it asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, final

from vgpumgr.catalog.shipped_tables import sources, table
from vgpumgr.model.health import ActionClass


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One Xid. ``severity`` is ``fatal`` or ``nonfatal``, ``action`` NVIDIA's word (``RESET_GPU``).

    None: no source says. ``unused``: NVIDIA says that no driver reports it any more. ``linked`` is
    the driver branch from which on NVML's recovery action follows it, and wins over what it says
    itself; None: none does. ``note`` is what its name does not tell.
    """

    number: int
    name: str
    severity: str | None
    action: str | None
    action_class: ActionClass
    unused: bool
    linked: int | None
    note: str
    source: str
    verified: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAction:
    """What the driver asks for at present (nvmlDeviceGpuRecoveryAction_t), and its class."""

    number: int
    name: str
    action_class: ActionClass
    words: str
    source: str


def xid(number: int) -> Xid | None:
    """The Xid of this number; None where it is not listed.

    Source: NVIDIA's Xid catalogue and memory-error pages, NVSentinel's mapping, and nverror.h of
    the open kernel modules for names that these leave out (173-176).
    """
    return _by_number().get(number)


def xids() -> tuple[Xid, ...]:
    """All that are listed, by number."""
    return tuple(_by_number().values())


def xid_class(number: int) -> ActionClass:
    """What an Xid of this number asks for; *unknown* for one that is not listed."""
    known = xid(number)
    return ActionClass.UNKNOWN if known is None else known.action_class


@cache
def recovery_actions() -> dict[int, RecoveryAction]:
    """By NVML's number. Source: nvml.h, and NVIDIA's memory-error pages for what each asks."""
    source = sources("xid", table("xid")["recovery_source"])
    return {
        row["number"]: RecoveryAction(
            number=row["number"],
            name=row["name"],
            action_class=ActionClass(row["class"]),
            words=row["words"],
            source=source,
        )
        for row in table("xid")["recovery_actions"]
    }


@cache
def _by_number() -> dict[int, Xid]:
    return {row["xid"]: _xid(row) for row in table("xid")["xids"]}


def _xid(row: dict[str, Any]) -> Xid:
    return Xid(
        number=row["xid"],
        name=row["name"],
        severity=row["severity"],
        action=row["action"],
        action_class=ActionClass(
            row.get("class") or table("xid")["actions"][row["action"]]["class"]
        ),
        unused=row.get("unused", False),
        linked=row.get("linked"),
        note=row.get("note", ""),
        source=sources("xid", row["source"]),
        verified=row["verified"],
    )
