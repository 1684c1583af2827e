"""Which hosts Prometheus is told to ask."""

from __future__ import annotations

import pytest

from vgpumgr.model.host import HostRecord
from vgpumgr.telemetry.scrape_targets import scrape_targets


def record(address: str, maintenance: bool = False, **labels: str) -> HostRecord:
    return HostRecord(name="h1", address=address, labels=labels, maintenance=maintenance)


@pytest.mark.parametrize(
    ("address", "told", "target"),
    [
        ("root@gpu1", "9869", "gpu1:9869"),
        ("gpu1", "9869", "gpu1:9869"),
        ("root@gpu1.example:2222", "9869", "gpu1.example:9869"),
        ("root@[fd00::1]:2222", "9869", "[fd00::1]:9869"),
        ("root@fd00::1", "9869", "[fd00::1]:9869"),
        ("local", "9869", "h1:9869"),
        ("sim://h1", "9869", "h1:9869"),
        ("root@gpu1", "10.0.0.5:80", "10.0.0.5:80"),
    ],
)
def test_where_an_exporter_is(address: str, told: str, target: str) -> None:
    [found] = scrape_targets([record(address, exporter=told, rack="r1")])
    assert found == {
        "targets": [target],
        "labels": {"__meta_vgpumgr_host": "h1", "__meta_vgpumgr_rack": "r1"},
    }


def test_a_host_without_the_label_is_not_asked() -> None:
    assert scrape_targets([record("root@gpu1"), record("root@gpu1", exporter="")]) == []


def test_nor_one_at_rest() -> None:
    assert scrape_targets([record("root@gpu1", maintenance=True, exporter="9869")]) == []
