"""Rows of hosts ↔ values."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from vgpumgr.model.host import HostRecord
from vgpumgr.store.codec import decoded, dump
from vgpumgr.store.facts import in_range
from vgpumgr.store.rows import decodes
from vgpumgr.store.schema import host

# What has a column of its own, or is what a look found; all else is what an operator sets.
_COLUMNS = frozenset({"name", "address", "generation", "facts", "observed_at", "last_error"})
_OUT_OF_RANGE = "what was kept of its last look is out of range"
_SETTINGS = tuple(each.name for each in fields(HostRecord) if each.name not in _COLUMNS)


def settings(record: HostRecord) -> str:
    """What an operator sets on a host, as its row has it."""
    return dump({name: getattr(record, name) for name in _SETTINGS})


@decodes(host)
def from_row(row: Any) -> HostRecord:
    """The value of a row of ``host``."""
    columns = {
        "name": row.name,
        "address": row.address,
        "generation": row.generation,
        "facts": json.loads(row.facts) if row.facts is not None else None,
        "observed_at": row.observed_at,
        "last_error": row.last_error,
    }
    if row.facts is not None and not in_range(row.facts, columns["facts"]):
        columns |= {"facts": None, "last_error": row.last_error or _OUT_OF_RANGE}
    return decoded(HostRecord, {**json.loads(row.settings), **columns})
