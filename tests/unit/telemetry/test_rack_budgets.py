"""The budget of a rack as a series: of the budgets that select its hosts by label, the least."""

from __future__ import annotations

from vgpumgr.model.power import PowerBudget
from vgpumgr.telemetry import ledger_gauges
from vgpumgr.telemetry.exposition import Exposition


def test_the_least_budget_of_a_rack_is_its_series() -> None:
    out = Exposition()
    budgets = [
        PowerBudget(name="r1", watts=9000, host_labels={"rack": "r1"}),
        PowerBudget(name="r1-feed", watts=8000, host_labels={"rack": "r1", "feed": "a"}),
        PowerBudget(name="r2", watts=7000, host_labels={"rack": "r2"}),
        PowerBudget(name="site", watts=20_000, hosts=("h1",)),
    ]
    ledger_gauges.add_racks(out, (), {}, budgets)
    lines = [line for line in out.text().splitlines() if not line.startswith("#")]
    assert lines == [
        'vgpumgr_rack_power_budget_watts{rack="r1"} 8000',
        'vgpumgr_rack_power_budget_watts{rack="r2"} 7000',
    ]
