"""What the audit trail alone says of VMs and allocations. Pure, and of no code of the product.

A record is a row of the table ``audit`` as a mapping: ``event``, ``vm``, ``host``, ``gpu``,
``allocation``, ``device``, ``units`` (JSON text or a sequence), ``before``, ``after``, ``detail``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

# event → the states a VM may be in just before it, None where there is no such VM yet
_VM_STATES: dict[str, frozenset[str | None]] = {
    "reserved": frozenset({None, "shelved", "active"}),
    "active": frozenset({None, "reserved", "migrating", "deleting"}),
    "migrating": frozenset({"active"}),
    "shelved": frozenset({"active", "reserved"}),
    "deleting": frozenset({"reserved", "active", "shelved"}),
    "deleted": frozenset({"reserved", "active", "deleting"}),
}
_ALLOCATION_STATES: dict[str, frozenset[str | None]] = {
    "reserved": frozenset({None}),
    "active": frozenset({None, "reserved", "orphaned"}),
    "orphaned": frozenset({"active"}),
    "released": frozenset({"reserved", "active", "orphaned"}),
}


@dataclass(frozen=True)
class Vm:
    """A VM that is not deleted."""

    state: str
    host: str
    running: bool
    generation: int | None


@dataclass(frozen=True)
class Allocation:
    """An allocation, released ones included."""

    state: str
    vm: str
    host: str
    gpu: str
    device: str
    units: tuple[int, ...]


@dataclass
class Replayed:
    """VMs by name, allocations by id, and every record that cannot follow on those before it."""

    vms: dict[str, Vm] = field(default_factory=dict)
    allocations: dict[str, Allocation] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def replay(records: Iterable[Mapping[str, Any]]) -> Replayed:
    """Play the records, oldest first."""
    found = Replayed()
    for record in records:
        noun, _, event = str(record["event"]).partition(".")
        if noun == "vm":
            _vm(found, record, event)
        elif noun == "allocation":
            _allocation(found, record, event)
    return found


def _vm(found: Replayed, record: Mapping[str, Any], event: str) -> None:
    name = str(record["vm"])
    known = found.vms.get(name)
    if event in _VM_STATES:
        before = known.state if known else None
        if before not in _VM_STATES[event]:
            found.problems.append(f"{_line(record)}: it was {before}")
        running = known.running if known else record["detail"] == "to run"
        found.vms[name] = Vm(event, str(record["host"]), running, record["after"])
        if event == "deleted":
            del found.vms[name]
    elif event == "renamed":
        known = _renamed(found, str(record["detail"]).removeprefix("was "), name)
    elif known is None:
        found.problems.append(f"{_line(record)}: there is no such VM")
    elif event in {"started", "stopped"}:
        found.vms[name] = replace(known, running=event == "started")
    elif event in {"changed", "moved", "stayed", "adopted", "reimaged"}:
        found.vms[name] = replace(known, host=str(record["host"]), generation=record["after"])
    else:
        found.problems.append(f"{_line(record)}: an event of no kind")
    if known and record["before"] != known.generation:
        found.problems.append(f"{_line(record)}: it was at generation {known.generation}")


def _renamed(found: Replayed, old: str, name: str) -> Vm | None:
    """It and what it holds have the new name from now on."""
    known = found.vms.pop(old, None)
    if known is None or name in found.vms:
        found.problems.append(f"{old} cannot have become {name}")
        return None
    found.vms[name] = known
    for id_, each in found.allocations.items():
        if each.vm == old and each.state != "released":
            found.allocations[id_] = replace(each, vm=name)
    return known


def _allocation(found: Replayed, record: Mapping[str, Any], event: str) -> None:
    id_ = str(record["allocation"])
    known = found.allocations.get(id_)
    before = known.state if known else None
    if before not in _ALLOCATION_STATES.get(event, frozenset()):
        found.problems.append(f"{_line(record)}: it was {before}")
    units = record["units"]
    found.allocations[id_] = Allocation(
        event,
        str(record["vm"]),
        str(record["host"]),
        str(record["gpu"]),
        str(record["device"]),
        tuple(json.loads(units) if isinstance(units, str) else units),
    )


def _line(record: Mapping[str, Any]) -> str:
    what = record["allocation"] or record["vm"]
    return f"record {record.get('seq', '?')}: {record['event']} of {what}"
