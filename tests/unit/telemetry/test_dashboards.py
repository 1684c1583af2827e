"""Dashboards: series that there are, queries that parse, panels that do not lie over each other."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring import program
from vgpumgr.telemetry.alert_rules import RECORDED
from vgpumgr.telemetry.contract import CONTRACT, HISTOGRAM
from vgpumgr.telemetry.dashboards import DASHBOARDS, Dashboard, grafana_json

EACH = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
MEASURED = {family.name: row for row in CONTRACT for family in row.families if row.source}
NAME = re.compile(r"vgpumgr[_:][a-z_:]+")
LABELLED = re.compile(r"(vgpumgr_[a-z_]+){([^}]*)}")


def queries(dashboard: Dashboard) -> list[str]:
    return [expr for panel in dashboard.panels for expr, _ in panel.queries]


@EACH
def test_every_series_is_measured_or_recorded(dashboard: Dashboard) -> None:
    known = {*MEASURED, *(each.name for each in RECORDED)}
    texts = [*queries(dashboard), *(query for _, query in dashboard.variables)]
    found = {name for text in texts for name in NAME.findall(text)}
    assert found and found <= known


@EACH
def test_a_query_selects_by_labels_that_the_series_have(dashboard: Dashboard) -> None:
    for expr in queries(dashboard):
        for name, inside in LABELLED.findall(expr):
            labels = {each.partition("=")[0].rstrip("!~") for each in inside.split(",")}
            assert labels <= {*MEASURED[name].labels}, expr


@EACH
def test_every_variable_of_a_query_is_one_of_the_dashboard(dashboard: Dashboard) -> None:
    asked = {name for expr in queries(dashboard) for name in re.findall(r"\$(\w+)", expr)}
    assert asked == {name for name, _ in dashboard.variables}


def test_queries_parse(tmp_path: Path) -> None:
    """By Prometheus' own parser: a rule of each."""
    rules = [
        {"record": f"one:{number}".replace(":", "_"), "expr": expr}
        for number, expr in enumerate(expr for each in DASHBOARDS for expr in queries(each))
    ]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    argv = [program("promtool"), "check", "rules", "--lint=none", str(path)]
    checked = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


@EACH
def test_grafana_reads_it(dashboard: Dashboard) -> None:
    written: dict[str, Any] = json.loads(json.dumps(grafana_json(dashboard)))
    panels = written["panels"]
    assert len(panels) == len(dashboard.panels)
    assert len({each["id"] for each in panels}) == len(panels)
    assert {each["type"] for each in panels} <= {"timeseries", "stat", "table"}
    names = [each["name"] for each in written["templating"]["list"]]
    assert names == ["datasource", *(name for name, _ in dashboard.variables)]
    for each in panels:
        refs = [target["refId"] for target in each["targets"]]
        assert refs == [chr(ord("A") + n) for n in range(len(refs))]


@EACH
def test_no_panel_lies_over_another(dashboard: Dashboard) -> None:
    places = [each["gridPos"] for each in grafana_json(dashboard)["panels"]]
    assert all(each["x"] + each["w"] <= 24 for each in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below


def test_names_are_unique() -> None:
    assert len({each.uid for each in DASHBOARDS}) == len(DASHBOARDS) == 4
    for each in DASHBOARDS:
        titles = [panel.title for panel in each.panels]
        assert len(set(titles)) == len(titles)


def test_no_histogram_is_asked_for_as_a_plain_series() -> None:
    plain = {f.name for row in CONTRACT for f in row.families if f.kind == HISTOGRAM}
    text = " ".join(expr for each in DASHBOARDS for expr in queries(each))
    assert not [name for name in plain if re.search(rf"{name}(?!_)", text)]
