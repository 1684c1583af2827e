"""The waves of a rolling change: which VMs are stopped together, and which after them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vgpumgr.engine.inventory.ledger_view import ObservedDomains
from vgpumgr.engine.planning.changed_fields import needs_restart, stuck_fields
from vgpumgr.model.rolling import RollingVms
from vgpumgr.model.vm import VmRecord, VmSpec, VmState


def change_waves(
    desired: Iterable[VmSpec],
    known: Mapping[str, VmRecord],
    seen: ObservedDomains,
    rolling: RollingVms,
) -> dict[str, int]:
    """By name, the wave of each VM that runs, rolls and has to stop for its change: of each group
    as many as may stop at once, in the order of the file. Waves of several groups go side by side.
    """
    groups: dict[str, list[str]] = {}
    for spec in desired:
        record = known.get(spec.name)
        if record is not None and spec.name in rolling and _has_to_stop(record, spec, seen):
            groups.setdefault(rolling[spec.name].group, []).append(spec.name)
    return {
        name: number
        for names in groups.values()
        for name, number in _numbered(names, rolling[names[0]].at_once)
    }


def _has_to_stop(record: VmRecord, spec: VmSpec, seen: ObservedDomains) -> bool:
    runs = (record.host, record.name) in seen.running and record.state is VmState.ACTIVE
    return runs and needs_restart(record.spec, spec) and not stuck_fields(record, spec)


def _numbered(names: Sequence[str], at_once: int) -> Iterable[tuple[str, int]]:
    return ((name, place // at_once + 1) for place, name in enumerate(names))
