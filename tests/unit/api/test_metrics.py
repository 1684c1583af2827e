"""What Prometheus is served, and to whom."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.inside import Inside
from tests.simworld import SimWorld, host, vm
from vgpumgr.app.telemetry_schedule import telemetry_options
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.top import part_figures
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.model.role_binding import EVERY_TENANT, Role
from vgpumgr.model.vm import Affinity
from vgpumgr.telemetry.telemetry_files import SERIES, TelemetryFiles
from vgpumgr.telemetry.telemetry_round import TelemetryRound

READERS = (Role.VIEWER, Role.OPERATOR, Role.AUDITOR, Role.ADMIN)


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """The API over a fleet at work, whose figures `serve` has just written."""
    tmp_path = tmp_path_factory.mktemp("fleet")
    world = SimWorld(tmp_path, host("T4"))
    world.engine.refresh()
    world.apply(vm("a", "T4-4Q", tenant="blue"), vm("b", "T4-4Q", tenant="red"))
    made = Inside(tmp_path, tmp_path / "ledger.db")
    files = TelemetryFiles(made.app.config.telemetry_folder)
    with files.owned():
        options = telemetry_options(made.app.config)
        files.write(TelemetryRound(world.engine, SerialWorkers(), options).take())
    yield made
    made.close()
    world.close()


def prometheus(inside: Inside) -> str:
    """The token of a user who sees everything."""
    inside.bind("p", Role.VIEWER, EVERY_TENANT)
    return inside.token("p", Role.VIEWER, EVERY_TENANT)


def test_prometheus_is_served_the_series(inside: Inside) -> None:
    said = inside.ask("GET", "/metrics", prometheus(inside))
    assert said.status == 200
    assert said.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = {each.name for each in text_string_to_metric_families(said.text)}
    assert {"vgpumgr_gpu_power_watts", "vgpumgr_vgpu_info", "vgpumgr_host_up"} <= names


@pytest.mark.parametrize("role", [each for each in Role if each is not Role.ADMIN])
@pytest.mark.parametrize("tenant", [EVERY_TENANT, "blue"])
def test_only_who_sees_all_tenants_reads_them(inside: Inside, role: Role, tenant: str) -> None:
    inside.bind("u", role, tenant)
    secret = inside.token("u", role, tenant)
    may = tenant == EVERY_TENANT and role in READERS
    assert inside.ask("GET", "/metrics", secret).status == (200 if may else 403)
    assert inside.ask("GET", "/v1/metrics", secret).status == (200 if may else 403)
    assert inside.ask("GET", "/v1/metrics/sd", secret).status == (200 if may else 403)


def test_without_a_login_there_are_none(inside: Inside) -> None:
    assert inside.ask("GET", "/metrics").status == 401
    assert inside.ask("GET", "/v1/metrics/sd").status == 401


def test_prometheus_is_told_which_hosts_to_ask(inside: Inside) -> None:
    secret = prometheus(inside)
    assert inside.ask("GET", "/v1/metrics/sd", secret).body == []
    ledger = inside.app.writable_ledger
    [record] = ledger.hosts()
    ledger.update_host(replace(record, labels={"exporter": "gpu1.example:9869"}))
    said = inside.ask("GET", "/v1/metrics/sd", secret)
    assert said.headers["content-type"] == "application/json"
    meta = {"__meta_vgpumgr_host": record.name}
    assert said.body == [{"targets": ["gpu1.example:9869"], "labels": meta}]


def test_old_series_do_not_pass_for_new_ones(inside: Inside) -> None:
    """Prometheus then sees that the target is down, and not that nothing changes."""
    path = inside.app.config.telemetry_folder / SERIES
    written, before = path.stat(), time.time() - 3600
    os.utime(path, (before, before))
    secret = prometheus(inside)
    said = inside.ask("GET", "/metrics", secret)
    assert (said.status, said.body["code"]) == (503, "busy.figures")
    aside = path.rename(path.with_suffix(".aside"))
    assert inside.ask("GET", "/metrics", secret).status == 503
    aside.rename(path)
    os.utime(path, (written.st_atime, written.st_mtime))


def test_a_tenant_sees_what_its_own_vms_do(inside: Inside) -> None:
    inside.bind("blue", Role.TENANT_ADMIN, "blue")
    secret = inside.token("blue", Role.TENANT_ADMIN, "blue")
    said = inside.ask("GET", "/v1/top", secret)
    assert said.status == 200
    [gpu] = said.body["items"]
    assert [part["vm"] for part in gpu["parts"]] == ["a"]
    assert '"b"' not in said.text and "red" not in said.text
    shown = inside.ask("GET", "/v1/vms/a", secret).body
    assert shown["gpus"][0]["now"]["utilization"] > 0
    other = inside.token("green", Role.TENANT_ADMIN, "green")
    inside.bind("green", Role.TENANT_ADMIN, "green")
    assert inside.ask("GET", "/v1/top", other).body["items"] == []


def test_a_gpu_is_shown_with_what_it_does_now(inside: Inside) -> None:
    secret = prometheus(inside)
    [gpu] = inside.ask("GET", "/v1/gpus", secret).body["items"]
    now = inside.ask("GET", f"/v1/gpus/{gpu['name']}", secret).body["now"]
    assert now["memory_total_bytes"] == 16 << 30
    assert 0 < now["utilization"] < 1
    assert now["at"].endswith("Z")


def test_what_parts_measure_is_told_for_several_hosts_as_for_each(tmp_path: Path) -> None:
    """One reading of the ledger however many hosts a pool's desktops are on."""
    world = SimWorld(tmp_path, *(host("T4", name=name) for name in ("h1", "h2", "h3")))
    world.engine.refresh()
    for name in ("h1", "h2", "h3"):
        world.apply(vm(f"on-{name}", "T4-4Q", affinity=Affinity(hosts=(name,))))
    made = Inside(tmp_path, tmp_path / "ledger.db")
    files = made.app.telemetry_files
    with files.owned():
        options = telemetry_options(made.app.config)
        files.write(TelemetryRound(world.engine, SerialWorkers(), options).take())
    context = CallContext(app=made.app)
    both = part_figures(context, ["h1", "h2", "h1", "gone"])
    assert both == {**part_figures(context, ["h1"]), **part_figures(context, ["h2"])}
    assert {world.ledger.vm(f"on-{name}").id for name in ("h1", "h2")} == {vm for vm, _ in both}
    assert part_figures(context, ["gone"]) == part_figures(context, []) == {}
    made.close()
    world.close()


def test_a_gpu_that_is_too_hot_is_evaluated_with_what_follows(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the newest figures: the condition in the ledger is as it was."""
    seen = inside.app.telemetry_files.sample(time.time())
    assert seen is not None
    [one] = [each for each in seen.hosts if each.figures is not None]
    assert one.figures is not None
    gpus = tuple(
        replace(gpu, figures={**gpu.figures, "temperature_gpu_c": 91}) for gpu in one.figures.gpus
    )
    hot = replace(seen, hosts=(replace(one, figures=replace(one.figures, gpus=gpus)),))
    monkeypatch.setattr(TelemetryFiles, "sample", lambda *_: hot)
    found = inside.ask("GET", "/v1/health-evaluation", prometheus(inside)).body
    [item] = found["items"]
    assert (item["temperature_c"], item["condition"], item["action"]) == (91, "healthy", "")
    assert item["heat"] == ["lock-clocks", "least-limit", "cordon"]
    assert {*item["vms"]} == {"a", "b"}
