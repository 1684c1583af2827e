"""The series of meters: power of outlets, and temperatures of coolant."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.helper.series_text import label_text
from vgpumgr.model.power import MeterReading, PowerBudget
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.fleet_frame import RACK


def add_meters(
    out: Exposition, budgets: Iterable[PowerBudget], meters: Iterable[MeterReading]
) -> None:
    """Of a meter that was read; its rack is the label of its budget, else the budget's name."""
    racks = {each.name: each.host_labels.get(RACK, each.name) for each in budgets}
    for meter in sorted(meters, key=lambda each: each.budget):
        rack = racks.get(meter.budget, meter.budget)
        for sensor, celsius in sorted(meter.coolant_c.items()):
            labels = label_text({"rack": rack, "sensor": sensor})
            out.add("vgpumgr_coolant_celsius", labels, celsius)
        for sensor, watts in sorted(meter.outlets.items()):
            labels = label_text({"rack": rack, "sensor": sensor})
            out.add("vgpumgr_pdu_outlet_watts", labels, watts)
