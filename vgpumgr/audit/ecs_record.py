"""A sealed record as an event of ECS (Elastic Common Schema), for logs that others keep.

``event.original`` is the very text that was sealed and ``event.hash`` its leaf hash, so that who
keeps the line can check it against a checkpoint. ``gpu``, ``operation``, ``resource`` and
``vgpumgr`` are fields of ours, which ECS leaves free.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime

from vgpumgr.audit.event_classes import EVENT_CLASSES, UNKNOWN
from vgpumgr.model.history import AuditRecord
from vgpumgr.model.sealed_trail import SealedRecord

ECS_VERSION = "8.17.0"
Fields = dict[str, object]


def ecs_event(sealed: SealedRecord) -> Fields:
    """The event, without fields of which nothing is known."""
    it = sealed.record
    event: Fields = {
        "@timestamp": _time(it.at),
        "ecs": {"version": ECS_VERSION},
        "event": _event(sealed),
        "message": it.detail,
        "user": _user(it),
        "organization": {"id": it.asked_tenant or it.tenant},
        "source": _source(it.address),
        "host": {"name": it.host},
        "gpu": {"id": it.gpu},
        "operation": {"id": it.operation, "type": it.event},
        "trace": {"id": it.operation},
        "resource": {"consumption": _nested(sealed.consumption)},
        "related": {
            "user": sorted({each for each in (it.by, it.asked_by) if each}),
            "hosts": [it.host] if it.host else [],
        },
        "vgpumgr": _own(sealed),
    }
    return _known(event)


def _event(sealed: SealedRecord) -> Fields:
    action = sealed.record.event
    found = EVENT_CLASSES.get(action, UNKNOWN)
    return {
        "kind": "event",
        "provider": "vgpumgr",
        "dataset": "vgpumgr.audit",
        "action": action,
        "category": [found.category],
        "type": [found.type],
        "outcome": found.outcome,
        "sequence": sealed.record.seq,
        "hash": sealed.hash,
        "original": sealed.original,
    }


def _user(it: AuditRecord) -> Fields:
    """Who asked; who carried it out is the effective user where that is another."""
    if it.asked_by in {"", it.by}:
        return {"id": it.by}
    return {"id": it.asked_by, "effective": {"id": it.by}}


def _source(address: str) -> Fields:
    try:
        return {"ip": str(ipaddress.ip_address(address))}
    except ValueError:
        return {"address": address}


def _own(sealed: SealedRecord) -> Fields:
    it = sealed.record
    return {
        "leaf": sealed.leaf,
        "vm": it.vm,
        "task": it.task,
        "allocation": it.allocation,
        "profile": it.profile,
        "device": it.device,
        "units": list(it.units),
        "before": it.before,
        "after": it.after,
        "method": it.method,
        "credential": it.credential,
    }


def _nested(numbers: Mapping[str, float]) -> Fields:
    """``{"gpu.units": 8}`` as ``{"gpu": {"units": 8}}``, which are the same field to ECS."""
    found: Fields = {}
    for name, number in numbers.items():
        outer, _, inner = name.partition(".")
        if inner:
            group = found.setdefault(outer, {})
            if isinstance(group, dict):
                group[inner] = number
        else:
            found[outer] = number
    return found


def _known(fields: Fields) -> Fields:
    found = {
        name: _known(value) if isinstance(value, dict) else value for name, value in fields.items()
    }
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def _time(at: float) -> str:
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
