"""A simulated host keeps its answer to a probe only while nothing can change it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from vgpumgr.helper.verbs import probe
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.sim.simulated_fleet import SimulatedFleet
from vgpumgr.sim.simulated_host import SimulatedHost

HOST = SimHost(name="h1", boards=(SimBoard(board="H100-SXM5-80GB", count=8),), fabric="HGX-H100-8")


@pytest.fixture
def host() -> Iterator[SimulatedHost]:
    fleet = SimulatedFleet(SimFleet(name="f", hosts=(HOST,)))
    yield fleet.host("h1")
    fleet.close()


def asked(host: SimulatedHost, **args: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(host.helper(json.dumps({"verb": "probe", "args": args})))
    return answer


def test_it_is_read_once(host: SimulatedHost) -> None:
    with mock.patch.object(probe, "look", wraps=probe.look) as look:
        answers = [asked(host)["result"] for _ in range(3)]
        assert asked(host, known=answers[0]["digests"])["result"]["same"] == [
            *("machine", *probe.PARTS)
        ]
    assert look.call_count == 1 and answers[0] == answers[1] == answers[2]


def test_what_ends_by_itself_is_waited_for(host: SimulatedHost) -> None:
    host.reboot()
    assert asked(host)["result"]["fabric"] is None, "Fabric Manager is starting"
    host._kernel.clock.wait(5.0)
    assert asked(host)["result"]["fabric"]["partitions"]


def test_who_has_a_part_of_it_in_hand_may_change_it_at_any_time(host: SimulatedHost) -> None:
    kernel = host.kernel
    before = asked(host)["result"]["nvml"]
    kernel.nvidia[before["gpus"][0]["address"]].health.hidden = True
    assert asked(host)["result"]["nvml"] != before


@pytest.mark.parametrize("args", [{"known": 7}, {"known": {"gpus": "x"}}, {"sundry": 1}])
def test_it_refuses_what_the_helper_refuses(host: SimulatedHost, args: dict[str, object]) -> None:
    assert asked(host, **args)["error"]["code"] == "bad-argument"


def test_a_lie_is_told_in_full_and_has_a_digest_of_its_own(host: SimulatedHost) -> None:
    truth = asked(host)["result"]
    host.faults.inject(["lie", "probe", "result.hostname", '"other"'])
    told = asked(host, known=truth["digests"])["result"]
    assert (told["hostname"], told["same"], told["nvml"]) == ("other", [], truth["nvml"])
    changed = [part for part in truth["digests"] if told["digests"][part] != truth["digests"][part]]
    assert changed == ["machine"]
    host.faults.inject(["lie", "probe", "result.digests.gpus", '"0"'])
    assert asked(host)["result"]["digests"]["gpus"] == "0"
