"""The endpoint of drift: differences between the ledger and the hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.hosts import HostNames
from vgpumgr.model.codec import to_plain
from vgpumgr.model.drift import Drift, DriftKind, UnreadHost
from vgpumgr.model.errors import PartlyDone
from vgpumgr.model.formats import counted


class DriftItem(TypedDict):
    """One difference: ``subject`` is what differs, ``next`` what to type. ``gpu`` is our id."""

    name: str
    kind: str
    host: str
    subject: str
    text: str
    next: str
    gpu: str
    vm: str
    wanted: str
    found: str


class UnreadItem(TypedDict):
    """A part of a host (empty: all of it) that could not be read: nothing is said of it."""

    host: str
    part: str
    why: str


class DriftList(TypedDict):
    """Differences, and how many VMs on how many hosts were compared; ``skipped`` are VMs that an
    operation works on, ``rebooted`` hosts that have booted since they were seen last.
    """

    items: list[DriftItem]
    not_read: list[UnreadItem]
    hosts: int
    vms: int
    skipped: list[str]
    rebooted: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRequest:
    """These hosts (none named: all), with ``ignore_foreign`` without foreign things that hold none
    of our resources.
    """

    hosts: HostNames = ()
    ignore_foreign: bool = False


def survey_drift(context: CallContext, asked: DriftRequest) -> Result[DriftList]:
    """Probe, and compare; nothing is changed."""
    found = context.app.engine.drift(known_hosts(context, asked.hosts))
    drifts = [
        each
        for each in found.drifts
        if not (asked.ignore_foreign and each.kind is DriftKind.FOREIGN)
    ]
    item: DriftList = {
        "items": [_item(each) for each in drifts],
        "not_read": unread_items(found.not_read),
        "hosts": found.hosts,
        "vms": found.vms,
        "skipped": list(found.skipped),
        "rebooted": list(found.rebooted),
    }
    return Result(answer=item, error=unread_parts_error(found.not_read))


def known_hosts(context: CallContext, names: Sequence[str]) -> list[str]:
    """The names of enrolled hosts; NotFound for others, and where no host is enrolled."""
    context.app.require_hosts()
    return [context.app.ledger.host(name).name for name in names]


def _item(drift: Drift) -> DriftItem:
    plain: DriftItem = to_plain(drift)
    return {"name": drift_name(drift), **plain}


def drift_name(drift: Drift) -> str:
    """``h1/desk-01/memory/…``."""
    return f"{drift.host}/{drift.vm or drift.gpu}/{drift.kind}/{drift.subject}"


def unread_items(parts: Iterable[UnreadHost]) -> list[UnreadItem]:
    """The JSON of what was not read."""
    return [{"host": each.host, "part": each.part, "why": each.why} for each in parts]


def unread_parts_error(parts: Sequence[UnreadHost], most: int = 5) -> PartlyDone | None:
    """What is said holds for the rest; None where all was read."""
    if not parts:
        return None
    hosts = dict.fromkeys(each.host for each in parts)
    lines = [f"{each.host}: {each.part or 'the host'}: {each.why}" for each in parts[:most]]
    return PartlyDone(
        f"{counted(len(hosts), 'host')} could not be read completely",
        why="; ".join(lines),
        next="vgpumgr doctor",
    )


SURVEY_DRIFT = Endpoint(
    name="drift.list",
    method=HttpMethod.GET,
    path="/drift",
    permission=Permission.DRIFT_READ,
    summary="Every difference between the ledger and the hosts.",
    asks=DriftRequest,
    answers=DriftList,
    kind="DriftList",
    work=survey_drift,
    runs=Runs.WORKER,
)

ENDPOINTS = (SURVEY_DRIFT,)
