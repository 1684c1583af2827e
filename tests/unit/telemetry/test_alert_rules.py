"""Every alert, by promtool: a case in which it fires, one in which it must not, one with a gap."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.monitoring import program
from vgpumgr.telemetry.alert_rules import RECORDED, alerts, rules_document, rules_text
from vgpumgr.telemetry.contract import FAMILIES, HISTOGRAM

GPU = 'host="h1",UUID="GPU-1",gpu="0"'
VGPU = f'{GPU},vgpu="m1"'
BUSY = f"vgpumgr_gpu_utilization_ratio{{{GPU}}}"
HOT = f'vgpumgr_gpu_temperature_celsius{{{GPU},sensor="gpu"}}'
MARGIN = f"vgpumgr_gpu_temperature_margin_celsius{{{GPU}}}"
THROTTLE = f'vgpumgr_gpu_throttle_seconds_total{{{GPU},reason="hw_thermal"}}'
ECC = f'vgpumgr_gpu_ecc_errors_total{{{GPU},type="uncorrected",since="boot"}}'
LICENSED = f"vgpumgr_vgpu_licensed{{{VGPU}}}"
OWNER = f'vgpumgr_vgpu_info{{{VGPU},vm="desk",tenant="blue",pool="cad",profile="T4-4Q"}}'
SAMPLED = "vgpumgr_telemetry_sampled_timestamp_seconds"
NOW = f'vgpumgr_gpu_pcie_link{{{GPU},what="width",of="now"}}'
MOST = f'vgpumgr_gpu_pcie_link{{{GPU},what="width",of="max"}}'


def state(name: str) -> str:
    return f'vgpumgr_gpu_health_state{{{GPU},state="{name}"}}'


def xid(code: int) -> str:
    return f'vgpumgr_gpu_xid_total{{{GPU},xid="{code}"}}'


def driver(host: str, release: str, branch: str = "R580") -> str:
    labels = f'host="{host}",driver="{release}",branch="{branch}",kernel="6.12",lock=""'
    return f"vgpumgr_host_driver_info{{{labels}}}"


class Case(NamedTuple):
    """Series every 15 s from 0 on, in promtool's notation, and how many alerts fire at ``at``."""

    series: dict[str, str]
    at: str
    firing: int = 1


# 2.42 writes a missing sample as _; 40 samples are ten minutes.
FIRES: dict[str, Case] = {
    "GpuBusy": Case({BUSY: "0.97x60"}, "12m"),
    "GpuHot": Case({HOT: "70x10 86x10"}, "4m"),
    "GpuThrottledHw": Case({THROTTLE: "0+3x40"}, "6m"),
    "PcieDegraded": Case({BUSY: "0.5x40", NOW: "8x40", MOST: "16x40"}, "5m"),
    "GpuLost": Case({state("lost"): "0x10 1x10"}, "4m"),
    "RecoveryActionSet": Case({f"vgpumgr_gpu_recovery_action{{{GPU}}}": "0x10 1x10"}, "4m"),
    "EccUncorrected": Case({ECC: "0x10 1x10"}, "4m"),
    "RowRemapPending": Case({f"vgpumgr_gpu_row_remap_pending{{{GPU}}}": "1x20"}, "4m"),
    "RowRemapFailed": Case({f"vgpumgr_gpu_row_remap_failed{{{GPU}}}": "1x20"}, "4m"),
    "XidReset": Case({xid(95): "0x10 1x10"}, "4m"),
    "XidReboot": Case({xid(79): "0x10 1x10"}, "4m"),
    "XidResetWhenIdle": Case({xid(63): "0x10 1x10"}, "4m"),
    "XidCheck": Case({xid(56): "0x10 1x10"}, "4m"),
    "XidApp": Case({xid(31): "0x10 1x10"}, "4m"),
    "HostSilent": Case({'vgpumgr_host_up{host="h1"}': "1x10 0x20"}, "6m"),
    "ProbeHung": Case({'vgpumgr_host_probe_hung{host="h1"}': "0x10 1x20"}, "6m"),
    "LicenseLost": Case({LICENSED: "1x4 0x40", OWNER: "1x60"}, "10m"),
    "DriverDrift": Case({driver("a", "580.1"): "1x300", driver("b", "580.2"): "1x300"}, "70m"),
    "ScrapeStale": Case({SAMPLED: "0x60"}, "4m"),
    "FragmentationHigh": Case({"vgpumgr_fragmentation_ratio": "0.31x120"}, "20m"),
    "SpareNotStartable": Case({'vgpumgr_pool_spare_startable{pool="cad"}': "0x60"}, "8m"),
    "RackOverBudget": Case(
        {
            'vgpumgr_rack_power_watts{rack="r1"}': "12001x30",
            'vgpumgr_rack_power_budget_watts{rack="r1"}': "12000x30",
        },
        "5m",
    ),
}
QUIET: dict[str, Case] = {
    "GpuBusy": Case({BUSY: "0.97x38 0.5x2 0.97x20"}, "14m", 0),
    "GpuHot": Case({HOT: "85x20", MARGIN: "1x20"}, "4m", 0),
    "GpuThrottledHw": Case(
        {THROTTLE: "0+0.4x40", THROTTLE.replace("hw_thermal", "power"): "0+15x40"}, "6m", 0
    ),
    "PcieDegraded": Case({BUSY: "0.01x40", NOW: "8x40", MOST: "16x40"}, "5m", 0),
    "GpuLost": Case({state("lost"): "0x20", state("quarantined"): "1x20"}, "4m", 0),
    "RecoveryActionSet": Case({f"vgpumgr_gpu_recovery_action{{{GPU}}}": "0x20"}, "4m", 0),
    "EccUncorrected": Case(
        {ECC: "3x100", ECC.replace("uncorrected", "corrected"): "0+9x100"}, "20m", 0
    ),
    "RowRemapPending": Case({f"vgpumgr_gpu_row_remap_pending{{{GPU}}}": "0x20"}, "4m", 0),
    "RowRemapFailed": Case({f"vgpumgr_gpu_row_remap_failed{{{GPU}}}": "0x20"}, "4m", 0),
    "XidReset": Case({xid(95): "7x100", xid(79): "0x100"}, "20m", 0),
    "XidReboot": Case({xid(79): "0x20", xid(31): "0x10 1x10"}, "4m", 0),
    "XidResetWhenIdle": Case({xid(63): "0x20"}, "4m", 0),
    "XidCheck": Case({xid(56): "0x20"}, "4m", 0),
    "XidApp": Case({xid(31): "0x20", xid(95): "0x10 1x10"}, "4m", 0),
    "HostSilent": Case({'vgpumgr_host_up{host="h1"}': "1x10 0x3 1x20"}, "6m", 0),
    "ProbeHung": Case({'vgpumgr_host_probe_hung{host="h1"}': "0x10 1x3 0x20"}, "6m", 0),
    "LicenseLost": Case({LICENSED: "1x10 0x10 1x20", OWNER: "1x60"}, "9m", 0),
    "DriverDrift": Case(
        {driver("a", "580.1"): "1x300", driver("b", "535.1", "R535"): "1x300"}, "70m", 0
    ),
    "ScrapeStale": Case({SAMPLED: "0+15x60"}, "6m", 0),
    "FragmentationHigh": Case({"vgpumgr_fragmentation_ratio": "0.30x120"}, "20m", 0),
    "SpareNotStartable": Case({'vgpumgr_pool_spare_startable{pool="cad"}': "1x60"}, "8m", 0),
    "RackOverBudget": Case(
        {
            'vgpumgr_rack_power_watts{rack="r1"}': "12000x30",
            'vgpumgr_rack_power_budget_watts{rack="r1"}': "12000x30",
            'vgpumgr_rack_power_watts{rack="r2"}': "99999x30",
        },
        "5m",
        0,
    ),
}
# Two scrapes fail: what was firing still fires, what counts down goes on.
GAP: dict[str, Case] = {
    "GpuBusy": Case({BUSY: "0.97x20 _x2 0.97x40"}, "12m"),
    "GpuHot": Case({HOT: "86x10 _x3"}, "3m15s"),
    "GpuThrottledHw": Case({THROTTLE: "0+3x10 _x4 45+3x10"}, "6m"),
    "PcieDegraded": Case(
        {BUSY: "0.5x10 _x2 0.5x10", NOW: "8x10 _x2 8x10", MOST: "16x10 _x2 16x10"}, "5m"
    ),
    "GpuLost": Case({state("lost"): "1x10 _x2 1x4"}, "2m45s"),
    "RecoveryActionSet": Case({f"vgpumgr_gpu_recovery_action{{{GPU}}}": "1x10 _x3"}, "3m"),
    "EccUncorrected": Case({ECC: "0x10 _x4 1x10"}, "5m"),
    "RowRemapPending": Case({f"vgpumgr_gpu_row_remap_pending{{{GPU}}}": "1x10 _x3"}, "3m"),
    "RowRemapFailed": Case({f"vgpumgr_gpu_row_remap_failed{{{GPU}}}": "1x10 _x3"}, "3m"),
    "XidReset": Case({xid(95): "0x10 _x4 1x10"}, "5m"),
    "XidReboot": Case({xid(79): "0x10 _x4 1x10"}, "5m"),
    "XidResetWhenIdle": Case({xid(63): "0x10 _x4 1x10"}, "5m"),
    "XidCheck": Case({xid(56): "0x10 _x4 1x10"}, "5m"),
    "XidApp": Case({xid(31): "0x10 _x4 1x10"}, "5m"),
    "HostSilent": Case({'vgpumgr_host_up{host="h1"}': "0x6 _x2 0x10"}, "3m"),
    "ProbeHung": Case({'vgpumgr_host_probe_hung{host="h1"}': "1x6 _x2 1x10"}, "3m"),
    "LicenseLost": Case({LICENSED: "0x20 _x2 0x20", OWNER: "1x60"}, "8m"),
    "DriverDrift": Case(
        {driver("a", "580.1"): "1x100 _x2 1x200", driver("b", "580.2"): "1x300"}, "70m"
    ),
    "ScrapeStale": Case({SAMPLED: "0+15x10 _x2 180+15x10"}, "5m", 0),
    "FragmentationHigh": Case({"vgpumgr_fragmentation_ratio": "0.31x40 _x3 0.31x80"}, "20m"),
    "SpareNotStartable": Case({'vgpumgr_pool_spare_startable{pool="cad"}': "0x20 _x3 0x30"}, "8m"),
    "RackOverBudget": Case(
        {
            'vgpumgr_rack_power_watts{rack="r1"}': "12001x10 _x2 12001x10",
            'vgpumgr_rack_power_budget_watts{rack="r1"}': "12000x10 _x2 12000x10",
        },
        "5m",
    ),
}
NAMES = [each.name for each in alerts()]


def run(folder: Path, tests: list[dict[str, object]]) -> None:
    """promtool over our rules; its words where one does not hold."""
    (folder / "rules.yaml").write_text(rules_text())
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "15s", "tests": tests}
    (folder / "test.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    argv = [program("promtool"), "test", "rules", str(folder / "test.yaml")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def as_test(name: str, case: Case) -> dict[str, object]:
    expr = f'count(ALERTS{{alertname="{name}",alertstate="firing"}})'
    found = [{"labels": "{}", "value": case.firing}] if case.firing else []
    return {
        "interval": "15s",
        "input_series": [{"series": name, "values": text} for name, text in case.series.items()],
        "promql_expr_test": [{"expr": expr, "eval_time": case.at, "exp_samples": found}],
    }


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_fires_and_must_not_and_bears_a_gap(name: str, tmp_path: Path) -> None:
    run(tmp_path, [as_test(name, cases[name]) for cases in (FIRES, QUIET, GAP)])


def test_every_alert_has_its_three_cases() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert set(NAMES) == FIRES.keys() == QUIET.keys() == GAP.keys()


def test_where_nothing_is_told_nothing_but_silence_is_alarmed(tmp_path: Path) -> None:
    """absent() aside: a fleet that has none of the series is no fleet in trouble."""
    nothing = Case({"up": "1x40"}, "6m", 0)
    quiet = [as_test(name, nothing) for name in NAMES if name != "ScrapeStale"]
    run(tmp_path, [*quiet, as_test("ScrapeStale", nothing._replace(firing=1))])


def test_what_vanishes_ends_its_alert(tmp_path: Path) -> None:
    """A GPU that was given to a guest is hot no longer for all we know."""
    run(tmp_path, [as_test("GpuHot", Case({HOT: "90x10 _x40"}, "8m", 0))])


def test_a_margin_of_none_is_hot_and_one_gpu_is_one_alert(tmp_path: Path) -> None:
    margin = Case({HOT: "70x20", MARGIN: "0x20"}, "4m")
    both = Case({HOT: "90x20", MARGIN: "-1x20"}, "4m")
    run(tmp_path, [as_test("GpuHot", margin), as_test("GpuHot", both)])


def test_an_xid_that_is_born_at_1_is_seen_and_a_start_of_ours_is_not(tmp_path: Path) -> None:
    """Codes outside of the nine begin with their first Xid; so does all when Prometheus starts."""
    born = Case({xid(79): "0x60", xid(62): "_x30 1x20"}, "9m")
    start = Case({xid(79): "_x30 0x20", xid(62): "_x30 1x20"}, "9m", 0)
    over = Case({xid(79): "0x200", xid(62): "_x30 1x200"}, "20m", 0)
    run(tmp_path, [as_test("XidReset", each) for each in (born, start, over)])


def test_a_second_equal_xid_is_seen_after_a_restart_of_serve(tmp_path: Path) -> None:
    """The counter is the host's, and goes on; after the host's boot it begins at 0."""
    again = Case({xid(95): "3x100 4x20"}, "26m")
    boot = Case({xid(95): "3x100 0x20"}, "26m", 0)
    run(tmp_path, [as_test("XidReset", again), as_test("XidReset", boot)])


def test_what_is_recorded_is_joined_with_its_owner(tmp_path: Path) -> None:
    one = f'vgpumgr_vgpu_utilization_ratio{{{VGPU},engine="sm"}}'
    two, other = one.replace("m1", "m2"), OWNER.replace("m1", "m2")
    series = {one: "0.25x20", two: "0.5x20", OWNER: "1x20", other: "1x20"}
    name = "vgpumgr:tenant_utilization:sum"
    expected = [(name, f'{name}{{tenant="blue",pool="cad"}}', 0.75)]
    tests = [
        {
            "interval": "15s",
            "input_series": [{"series": name, "values": text} for name, text in series.items()],
            "promql_expr_test": [
                {
                    "expr": expr,
                    "eval_time": "4m",
                    "exp_samples": [{"labels": labels, "value": value}],
                }
                for expr, labels, value in expected
            ],
        }
    ]
    run(tmp_path, tests)


def test_every_name_in_a_rule_is_in_the_contract() -> None:
    known = {each.name for each in FAMILIES} | {each.name for each in RECORDED}
    known |= {f"{each.name}_bucket" for each in FAMILIES if each.kind == HISTOGRAM}
    used = set(re.findall(r"\bvgpumgr[_:][a-z_:]+", json.dumps(rules_document())))
    assert used - {"vgpumgr-alerts"} <= known


def test_each_alert_says_what_happened_and_what_to_type() -> None:
    for each in alerts():
        assert each.summary and each.next
        assert each.severity in {"info", "warning", "critical"}
