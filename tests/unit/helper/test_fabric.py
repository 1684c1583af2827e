"""NVSwitch partitions through fmpm: claims, Fabric Manager's answers, reading back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.helper.host import CLAIM, FakeHost, done, gpu_host, power_cut, refused
from tests.unit.helper.nvidia import FabricManager

ON = {"partition": 13, "gpus": [7], "claim": CLAIM}
OFF = {"partition": 13, "claim": CLAIM}
CLAIM_FILE = "/var/lib/vgpumgr/claims/fabric-13.json"


@pytest.fixture
def host() -> FakeHost:
    return gpu_host()


@pytest.fixture
def manager(host: FakeHost) -> FabricManager:
    return FabricManager(host)


def changes(host: FakeHost) -> list[tuple[str, str]]:
    return [each for each in host.log if each[1] != "fmpm -l" and "epoch" not in each[1]]


def test_partitions_as_fabric_manager_lists_them(host: FakeHost, manager: FabricManager) -> None:
    manager.active.add(13)
    gpu = {"physical_id": 7, "uuid": None, "address": None}
    listed = done(host, "fabric_look")["partitions"]
    assert listed[0] == {"id": 13, "active": True, "gpus": [gpu], "claim": None}
    probed = done(host, "probe")["fabric"]["partitions"]
    assert [{**each, "claim": None} for each in probed] == listed


def test_on_a100_fabric_manager_names_uuid_and_address(host: FakeHost) -> None:
    gpu = {"physicalId": 1, "uuid": "GPU-1", "pciBusId": "00000000:0B:00.0"}
    entry = {"partitionId": 0, "isActive": 0, "gpuInfo": [gpu]}
    host.programs["fmpm"] = (0, json.dumps({"partitionInfo": [entry]}))
    [partition] = done(host, "fabric_look")["partitions"]
    expected = {"physical_id": 1, "uuid": "GPU-1", "address": "0000:0b:00.0"}
    assert partition["gpus"] == [expected]


def test_activation_is_claimed_first_and_read_back(host: FakeHost, manager: FabricManager) -> None:
    assert done(host, "fabric_activate", **ON) == {"active": True}
    assert manager.active == {13}
    assert changes(host) == [("store", CLAIM_FILE), ("run", "fmpm -a 13")]
    host.log.clear()
    assert done(host, "fabric_activate", **ON) == {"active": True}
    assert changes(host) == [], "under the same claim it is no error"
    assert done(host, "fabric_deactivate", **OFF) == {"active": False}
    assert changes(host) == [("run", "fmpm -d 13"), ("remove", CLAIM_FILE)]
    assert done(host, "fabric_deactivate", **OFF) == {"active": False}


@pytest.mark.parametrize("before", ["fmpm -a", "fmpm -d"])
def test_after_a_power_cut_the_same_call_finishes(
    host: FakeHost, manager: FabricManager, before: str
) -> None:
    if before == "fmpm -d":
        done(host, "fabric_activate", **ON)
    verb, args = ("fabric_activate", ON) if before == "fmpm -a" else ("fabric_deactivate", OFF)
    power_cut(host, before, verb, **args)
    assert host.claims() == ["fabric-13.json"]
    done(host, verb, **args)
    assert manager.active == ({13} if before == "fmpm -a" else set())


def test_a_gpu_in_another_active_partition_is_in_use(
    host: FakeHost, manager: FabricManager
) -> None:
    manager.active.add(6)
    error = refused(host, "fabric_activate", **ON)
    assert (error["code"], host.claims()) == ("in-use", [])
    assert error["why"].startswith("FM_ST_IN_USE")


def test_a_partition_that_another_hand_activated_is_in_use(
    host: FakeHost, manager: FabricManager
) -> None:
    manager.active.add(13)
    assert refused(host, "fabric_activate", **ON)["code"] == "in-use"
    assert refused(host, "fabric_deactivate", **OFF)["code"] == "claim-mismatch"
    assert (manager.active, host.claims()) == ({13}, [])


def test_the_partition_must_hold_exactly_those_gpus(host: FakeHost, manager: FabricManager) -> None:
    error = refused(host, "fabric_activate", **{**ON, "gpus": [7, 8]})
    assert (error["code"], error["why"]) == ("refused", "it holds [7], asked for [7, 8]")
    error = refused(host, "fabric_activate", **{**ON, "partition": 40})
    assert error["code"] == "not-found"
    assert changes(host) == []


def test_fabric_manager_that_starts_is_waited_for(host: FakeHost, manager: FabricManager) -> None:
    manager.starting = 5
    assert done(host, "fabric_activate", **ON) == {"active": True}
    assert host.waited == pytest.approx(5)
    manager.starting = 1000
    assert "FM_ST_NOT_CONFIGURED" in refused(host, "fabric_look")["why"]


def test_an_exit_status_of_0_is_not_trusted(host: FakeHost, manager: FabricManager) -> None:
    activate: Any = lambda _number: (0, "")  # noqa: E731
    manager._activate = activate  # type: ignore[method-assign]
    error = refused(host, "fabric_activate", **ON)
    assert error["why"] == "fmpm said nothing, and it is as before"
    assert host.claims() == []


def test_another_claim_is_never_touched(host: FakeHost, manager: FabricManager) -> None:
    done(host, "fabric_activate", **ON)
    other = {"claim": {**CLAIM, "allocation": "alloc-2"}}
    assert refused(host, "fabric_activate", **{**ON, **other})["code"] == "claim-mismatch"
    assert refused(host, "fabric_deactivate", **{**OFF, **other})["code"] == "claim-mismatch"
    assert manager.active == {13}


def test_restore_activates_again(host: FakeHost, manager: FabricManager) -> None:
    done(host, "fabric_activate", **ON)
    manager.active.clear()
    assert done(host, "restore") == {"restored": ["fabric-13"], "failed": []}
    assert manager.active == {13}
    del host.programs["fmpm"]
    [failure] = done(host, "restore")["failed"]
    assert failure["why"].startswith("fmpm is not installed")


@pytest.mark.parametrize(
    "answer",
    [
        (253, "Failed to get partition list. fmReturn: -3\n"),
        (247, "Failed to connect to Fabric Manager instance.\n"),
    ],
)
def test_without_partitions_the_probe_has_no_fabric_and_no_complaint(
    host: FakeHost, answer: tuple[int, str]
) -> None:
    assert done(host, "probe")["fabric"] is None, "no fmpm"
    host.programs["fmpm"] = answer
    seen = done(host, "probe")
    assert seen["fabric"] is None
    assert not [each for each in seen["unknown"] if each["part"] == "fabric"]
    assert refused(host, "fabric_look")["code"] == "refused"


@pytest.mark.parametrize("answer", [(254, "fmReturn: -2"), (124, ""), (0, "{"), (0, '{"a": 1}')])
def test_a_fabric_that_cannot_be_read_is_null_and_named(
    host: FakeHost, answer: tuple[int, str]
) -> None:
    host.programs["fmpm"] = answer
    seen = done(host, "probe")
    assert seen["fabric"] is None
    assert [each for each in seen["unknown"] if each["part"] == "fabric"]
