"""Every scenario, by name."""

from __future__ import annotations

from tests.faults.scenario import Scenario
from tests.faults.scenarios import hosts, layouts, moves, upkeep, vms

ALL: dict[str, Scenario] = {
    each.name: each for room in (vms, moves, layouts, hosts, upkeep) for each in room.SCENARIOS
}
FIRST = {name: each for name, each in ALL.items() if each.first}
