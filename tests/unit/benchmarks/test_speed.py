"""The speed experiment runs: a fleet with every rule on, its rivals, and figures for all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.placement import speed
from benchmarks.placement.baselines.cluster import Cluster, Shapes
from benchmarks.placement.policy import Place
from benchmarks.placement.speeds.fleet import full_fleet, tiled, types_of
from benchmarks.placement.speeds.load import Load
from benchmarks.placement.speeds.rivals import Placement, Sampling
from benchmarks.placement.traces import MILLI, Host, Shape
from tests.unit.benchmarks import fleets
from vgpumgr.model.vm import NumaPolicy

SHARE, PAIR = Shape(4000, 1024, 1, 400), Shape(8000, 1024, 2, MILLI)
HOSTS = tuple(Host(f"h{n}", 16000, 8192, 2, "T4") for n in range(4))


def test_a_small_run_has_all_figures(tmp_path: Path) -> None:
    out = tmp_path / "speed.json"
    args = ["--hosts", "8", "--load", "0", "0.5", "--decisions", "30", "--json", str(out)]
    assert speed.main(args) == 0
    found = json.loads(out.read_text())["results"]
    assert [(row["hosts"], row["load"]) for row in found] == [(8, 0.0), (8, 0.5)]
    for row in found:
        assert set(row["times_faster"]) == {"placement-and-weighers", "sampling"}
        assert row["vgpumgr"]["answer"]["cpu_us"]["median"] > 0
        assert row["vgpumgr"]["rss_mib"]["all"] > 10


def test_types_use_every_rule_and_hosts_have_two_nodes() -> None:
    random = np.random.default_rng(1)
    types = types_of(fleets.tasks(random))
    assert sum(types.shares) == pytest.approx(1.0)
    assert {vm.numa for vm in types.vms} <= {NumaPolicy.PREFER, NumaPolicy.REQUIRE}
    hosts = tiled(fleets.hosts(random), 7)
    assert len(hosts) == 7
    for host in full_fleet(hosts, types, Load(hosts, types.shapes)).hosts:
        assert len(host.numa) == 2
        assert {gpu.numa_node for gpu in host.gpus} <= {0, 1}


def test_a_load_is_what_the_supply_lacks() -> None:
    load = Load(HOSTS, (SHARE, PAIR))
    load.fill(0.5, [0, 1], seed=1)
    taken = int((MILLI - load.cluster.gpus).sum())
    assert taken >= 4 * MILLI
    types = types_of([])
    fleet = full_fleet(HOSTS, types, load)
    assert sum(MILLI - len(gpu.free_slots) for host in fleet.hosts for gpu in host.gpus) == taken
    assert (
        sum(use.units for host in fleet.hosts for gpu in host.gpus for use in gpu.usages) == taken
    )
    assert [host.free_vcpus for host in fleet.hosts] == load.cluster.cpu.tolist()


def test_rivals_spread_over_hosts_and_refuse_what_fits_nowhere() -> None:
    for make in (Placement, Sampling):
        cluster = Cluster(HOSTS, Shapes((SHARE, PAIR)))
        rival = make(cluster)
        places = [rival.decide(1) for _ in range(4)]
        assert sorted(place.host for place in places if place) == [0, 1, 2, 3]
        assert rival.decide(0) is None
        cluster.hold(1, Place(2, (0, 1)), -1)
        assert rival.decide(0) == Place(2, (0,))
