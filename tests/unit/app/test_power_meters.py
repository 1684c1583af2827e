"""Meters of power budgets: each in a thread of its own, and one that is away costs itself alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.redfish_service import PASSWORD, USER, redfish_service
from vgpumgr.app.power_meters import LONGEST_S, PowerMeters
from vgpumgr.model.errors import NotFound
from vgpumgr.model.power import MeterReading, PowerBudget, PowerMeter
from vgpumgr.model.secret import SecretValue
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.ledger_gauges import add_meters


def secret(_: str, name: str) -> SecretValue:
    if name != "pdu":
        raise NotFound(f"there is no secret {name}")
    return SecretValue(f"{PASSWORD}\n".encode())


def budget(name: str, url: str, secret: str = "pdu") -> PowerBudget:
    meter = PowerMeter(url=url, user=USER, secret=secret)
    return PowerBudget(name=name, watts=9000, host_labels={"rack": "r1"}, meter=meter)


def until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_answers_is_read_and_what_does_not_is_named() -> None:
    with redfish_service() as (url, _):
        budgets = [
            budget("well", url),
            budget("away", "http://127.0.0.1:1"),
            budget("locked", url, secret="lost"),
            PowerBudget(name="none", watts=1),
        ]
        meters = PowerMeters(secret)
        until(lambda: len(meters.newest(budgets)) == 3)
        found = {each.budget: each for each in meters.newest(budgets)}
    assert (found["well"].watts, found["well"].error) == (9100.0, "")
    assert "does not answer" in found["away"].error
    assert "there is no secret lost" in found["locked"].error
    assert PASSWORD not in repr(found)


def test_a_reading_of_long_ago_is_none_of_now() -> None:
    now = [1000.0]
    with redfish_service() as (url, _):
        budgets = [budget("well", url)]
        meters = PowerMeters(secret, lambda: now[0])
        until(lambda: bool(meters.newest(budgets)))
        until(lambda: not meters._running)
    now[0] += LONGEST_S + 1
    assert meters.newest(budgets) == ()


def test_outlets_and_coolant_are_series_of_their_rack() -> None:
    out = Exposition()
    reading = MeterReading(
        budget="well", at=0.0, watts=1.0, outlets={"pdu/A1": 4500.5}, coolant_c={"cdu/1/supply": 32}
    )
    gone = MeterReading(budget="away", at=0.0, error="it does not answer")
    add_meters(out, [budget("well", "https://pdu")], [reading, gone])
    lines = [line for line in out.text().splitlines() if not line.startswith("#")]
    assert lines == [
        'vgpumgr_coolant_celsius{rack="r1",sensor="cdu/1/supply"} 32',
        'vgpumgr_pdu_outlet_watts{rack="r1",sensor="pdu/A1"} 4500.5',
    ]
