"""Every scenario, by name."""

from __future__ import annotations

from tests.faults.scenario import Scenario
from tests.faults.scenarios import (
    adopted,
    automatic,
    backups,
    cuts,
    emptied,
    forgotten,
    healing,
    hosts,
    images,
    layouts,
    moves,
    pools,
    queueing,
    rolling,
    snapshots,
    storage_kinds,
    tickets,
    turns,
    vms,
)

_ROOMS = (
    vms,
    rolling,
    moves,
    layouts,
    automatic,
    hosts,
    images,
    emptied,
    healing,
    adopted,
    cuts,
    turns,
    forgotten,
    queueing,
    pools,
    snapshots,
    backups,
    storage_kinds,
    tickets,
)
ALL: dict[str, Scenario] = {each.name: each for room in _ROOMS for each in room.SCENARIOS}
# Of these a quick run kills a few on PostgreSQL, too.
ON_SERVER = frozenset(
    {
        "create/mdev",
        "delete/mdev",
        "evacuate/host",
        "heal/orphan",
        "layout-up/all-parts",
        "migrate-live/mdev",
    }
)
