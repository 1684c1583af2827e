"""vGPUs on VFs: claim, type, place and parameters; the driver's refusals (behaviour 5 and 6)."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from tests.unit.helper.host import CLAIM, GPU, call, done, power_cut, refused
from tests.unit.helper.nvidia import OTHER_TYPE, TYPE, VF, VFS, NvidiaHost, vf_file

CREATE = {"vf": VF, "type": TYPE, "claim": CLAIM}
RELEASE = {"vf": VF, "claim": CLAIM}
CLAIM_FILE = f"/var/lib/vgpumgr/claims/pci-{VF}.json"
TYPE_FILE = vf_file("current_vgpu_type")


@pytest.fixture
def host() -> NvidiaHost:
    return NvidiaHost()


def changes(host: NvidiaHost) -> list[tuple[str, str]]:
    return [entry for entry in host.log if "/epochs/" not in entry[1]]


def test_create_answers_what_was_read_back(host: NvidiaHost) -> None:
    made = done(host, "vgpu_create", **CREATE)
    assert (made["state"], made["exists"], made["type"]) == ("in-state", True, TYPE)
    assert (made["instance"], made["placement_id"], made["creatable"]) == (None, 0, [])
    assert (made["iommu_group"], made["in_use"], made["params"]) == (80, False, {})
    assert made["claim"]["wanted"] == {
        "kind": "vgpu",
        "vf": VF,
        "type": TYPE,
        "instance": None,
        "placement_id": None,
        "params": {},
    }


def test_the_claim_is_durable_before_the_type_is_written_and_goes_last(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE)
    assert changes(host) == [("store", CLAIM_FILE), ("write", TYPE_FILE)]
    host.log.clear()
    assert done(host, "vgpu_release", **RELEASE) == {"type": 0}
    assert changes(host) == [("write", TYPE_FILE), ("remove", CLAIM_FILE)]
    assert host.types == {}


def test_look_says_what_could_be_made_and_what_is_not_there(host: NvidiaHost) -> None:
    seen = done(host, "vgpu_look", vf=VF)
    assert (seen["type"], seen["creatable"], seen["claim"]) == (0, [OTHER_TYPE, TYPE], None)
    assert (seen["instance"], seen["placement_id"]) == (None, None), "ENXIO without a vGPU (5)"
    host.vfs_off()
    assert done(host, "vgpu_look", vf=VF) == {
        "exists": False,
        "type": None,
        "creatable": [],
        "instance": None,
        "placement_id": None,
        "params": None,
        "iommu_group": None,
        "in_use": False,
        "claim": None,
    }


def test_a_list_that_the_driver_fails_to_make_is_null(host: NvidiaHost) -> None:
    host.unreadable[vf_file("creatable")] = errno.EINVAL
    assert done(host, "vgpu_look", vf=VF)["creatable"] is None
    assert done(host, "vgpu_create", **CREATE)["type"] == TYPE, "then the driver decides"


def test_creating_again_under_the_same_claim_changes_nothing(host: NvidiaHost) -> None:
    first = done(host, "vgpu_create", **CREATE)
    host.open_vfs.add(VF)
    host.log.clear()
    assert done(host, "vgpu_create", **CREATE) == first
    assert host.log == []


@pytest.mark.parametrize("before", ["store /var/lib/vgpumgr/claims", "current_vgpu_type"])
def test_after_a_power_cut_the_same_call_finishes(host: NvidiaHost, before: str) -> None:
    power_cut(host, before, "vgpu_create", **CREATE)
    assert done(host, "vgpu_look", vf=VF)["type"] == 0
    assert done(host, "vgpu_create", **CREATE)["type"] == TYPE
    assert host.claims() == [f"pci-{VF}.json"]


@pytest.mark.parametrize("before", ["current_vgpu_type", "remove /var/lib/vgpumgr/claims"])
def test_after_a_power_cut_a_release_finishes(host: NvidiaHost, before: str) -> None:
    done(host, "vgpu_create", **CREATE)
    power_cut(host, before, "vgpu_release", **RELEASE)
    assert done(host, "vgpu_release", **RELEASE) == {"type": 0}
    assert (host.claims(), host.types) == ([], {})


def test_a_vf_that_carries_another_type_is_in_use(host: NvidiaHost) -> None:
    """Paragraph 5: a type while one exists is EPERM."""
    host.types[VF] = OTHER_TYPE
    error = refused(host, "vgpu_create", **CREATE)
    assert (error["code"], error["errno"]) == ("in-use", "EPERM")
    assert f"type {OTHER_TYPE}" in error["message"]
    assert changes(host) == []


def test_a_race_that_the_driver_notices_is_in_use_and_not_a_lack_of_rights(
    host: NvidiaHost,
) -> None:
    def taken(_: str) -> None:
        host.types[VF] = OTHER_TYPE
        raise OSError(errno.EPERM, "Operation not permitted")

    path = host.real(TYPE_FILE)
    host.hooks[path], mine = taken, host.hooks[path]
    error = refused(host, "vgpu_create", **CREATE)
    host.hooks[path] = mine
    assert (error["code"], error["errno"]) == ("in-use", "EPERM")
    assert (host.types, host.claims()) == ({VF: OTHER_TYPE}, []), "the other's is left alone"


def test_a_type_of_another_hand_is_never_touched(host: NvidiaHost) -> None:
    host.types[VF] = TYPE
    assert refused(host, "vgpu_create", **CREATE)["code"] == "claim-mismatch"
    assert refused(host, "vgpu_release", **RELEASE)["code"] == "claim-mismatch"
    assert (host.types, changes(host)) == ({VF: TYPE}, [])


def test_a_type_that_is_not_creatable_is_refused_with_the_drivers_list(host: NvidiaHost) -> None:
    error = refused(host, "vgpu_create", **{**CREATE, "type": 9})
    assert error["code"] == "refused"
    assert error["why"] == f"it would make: {OTHER_TYPE}, {TYPE}"
    assert (host.claims(), host.types) == ([], {})


def test_the_resource_managers_refusal_is_explained_by_what_is_there(host: NvidiaHost) -> None:
    """Paragraph 6: every refusal of the resource manager is EIO."""
    host.refuse["current_vgpu_type"] = errno.EIO
    error = refused(host, "vgpu_create", **CREATE)
    assert (error["code"], error["errno"]) == ("refused", "EIO")
    assert f"it would make: {OTHER_TYPE}, {TYPE}" in error["why"]
    assert "NVRM" in error["why"]
    assert host.claims() == []


def test_mig_without_an_instance_is_named(host: NvidiaHost) -> None:
    """Paragraph 8: VFs enabled after the instances were made leave none, and an empty list."""
    host.gpu.mig = (1, 1)
    error = refused(host, "vgpu_create", **CREATE)
    assert error["why"] == f"it would make nothing: MIG is on and {GPU} has no GPU instance"


def test_a_type_that_does_not_stay_is_noticed(host: NvidiaHost) -> None:
    host.hooks[host.real(TYPE_FILE)] = lambda _: None
    error = refused(host, "vgpu_create", **CREATE)
    assert (error["code"], error["why"]) == ("refused", "it reads 0 afterwards")
    assert host.claims() == []
    assert host.waited == pytest.approx(5)


def test_the_claim_stays_where_the_read_back_fails(host: NvidiaHost) -> None:
    def fail(_: str) -> None:
        host.unreadable[TYPE_FILE] = errno.EIO

    host.hooks[host.real(TYPE_FILE)] = fail
    assert refused(host, "vgpu_create", **CREATE)["code"] == "unknown"
    assert host.claims() == [f"pci-{VF}.json"]


def test_a_placement_is_written_and_read_back(host: NvidiaHost) -> None:
    made = done(host, "vgpu_create", **CREATE, placement_id=16)
    assert (made["placement_id"], made["claim"]["wanted"]["placement_id"]) == (16, 16)
    assert host.placements[VF] == 16


@pytest.mark.parametrize("obeys", [True, False])
def test_a_placement_that_is_not_had_takes_the_vgpu_back(host: NvidiaHost, obeys: bool) -> None:
    """Paragraph 7: an id is one of a list; the driver says EINVAL, or keeps its own choice."""
    if not obeys:
        host.hooks[host.real(vf_file("placement_id"))] = lambda _: None
    error = refused(host, "vgpu_create", **CREATE, placement_id=12 if obeys else 16)
    assert error["code"] == "refused"
    assert (host.types, host.claims()) == ({}, [])
    if not obeys:
        assert error["why"] == "asked for 16, it is at 0"


def test_parameters_are_written_and_read_back(host: NvidiaHost) -> None:
    """Paragraph 9: ``frame_rate_limiter=0``, beside what is set already."""
    host.files[host.real(vf_file("vgpu_params"))] = "disable_vnc=1\n"
    made = done(host, "vgpu_create", **CREATE, params={"frame_rate_limiter": 0})
    assert made["params"] == {"disable_vnc": 1, "frame_rate_limiter": 0}
    host.open_vfs.add(VF)
    host.log.clear()
    done(host, "vgpu_create", **CREATE, params={"frame_rate_limiter": 0})
    assert host.log == [], "a VM has it open (EPERM), and there is nothing to write"


def test_what_cannot_be_taken_back_keeps_its_claim(host: NvidiaHost) -> None:
    host.hooks[host.real(vf_file("vgpu_params"))] = lambda _: host.open_groups.add(80)
    error = refused(host, "vgpu_create", **CREATE, params={"frame_rate_limiter": 0})
    assert "it could not be undone either: the vGPU on" in error["why"]
    assert (host.types, host.claims()) == ({VF: TYPE}, [f"pci-{VF}.json"])


def test_a_vgpu_that_was_there_is_never_taken_back(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE, params={"frame_rate_limiter": 0})
    host.files[host.real(vf_file("vgpu_params"))] = "\n"
    host.open_vfs.add(VF)
    error = refused(host, "vgpu_create", **CREATE, params={"frame_rate_limiter": 0})
    assert (error["code"], error["errno"]) == ("in-use", "EPERM")
    assert (host.types, host.claims()) == ({VF: TYPE}, [f"pci-{VF}.json"])


def test_parameters_that_do_not_stay_take_the_vgpu_back(host: NvidiaHost) -> None:
    host.hooks[host.real(vf_file("vgpu_params"))] = lambda _: None
    error = refused(host, "vgpu_create", **CREATE, params={"frame_rate_limiter": 0})
    assert error["message"] == "the vGPU's parameters were not set"
    assert (host.types, host.claims()) == ({}, [])


def test_a_driver_without_parameters_refuses_them(host: NvidiaHost) -> None:
    del host.files[host.real(vf_file("vgpu_params"))]
    del host.hooks[host.real(vf_file("vgpu_params"))]
    assert done(host, "vgpu_look", vf=VF)["params"] == {}
    error = refused(host, "vgpu_create", **CREATE, params={"frame_rate_limiter": 0})
    assert "this driver has no" in error["why"]


def test_the_plugins_end_is_waited_for(host: NvidiaHost) -> None:
    """Paragraph 5: EBUSY while the plugin is alive."""
    done(host, "vgpu_create", **CREATE)
    host.ending[VF] = 3
    assert done(host, "vgpu_release", **RELEASE) == {"type": 0}
    assert host.waited == pytest.approx(1.5)


def test_a_plugin_that_never_ends_is_in_use_and_keeps_its_claim(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE)
    host.ending[VF] = 1000
    error = refused(host, "vgpu_release", **RELEASE)
    assert (error["code"], error["errno"]) == ("in-use", "EBUSY")
    assert host.waited == pytest.approx(10)
    assert host.claims() == [f"pci-{VF}.json"]


@pytest.mark.parametrize("seen_by", ["group", "driver"])
def test_a_vgpu_in_a_guests_hands_is_not_released(host: NvidiaHost, seen_by: str) -> None:
    """Paragraph 5: 0 while a VM has it open is EPERM."""
    done(host, "vgpu_create", **CREATE)
    if seen_by == "group":
        host.open_groups.add(80)
        assert done(host, "vgpu_look", vf=VF)["in_use"] is True
    else:
        host.open_vfs.add(VF)
    error = refused(host, "vgpu_release", **RELEASE)
    assert (error["code"], error["errno"]) == (
        "in-use",
        "EBUSY" if seen_by == "group" else "EPERM",
    )
    assert (host.types, host.claims()) == ({VF: TYPE}, [f"pci-{VF}.json"])


def test_another_vgpu_than_the_claims_is_not_released(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE)
    host.types[VF] = OTHER_TYPE
    error = refused(host, "vgpu_release", **RELEASE)
    assert error["code"] == "claim-mismatch"
    assert host.types == {VF: OTHER_TYPE}


def test_releasing_what_never_was_is_no_error(host: NvidiaHost) -> None:
    assert done(host, "vgpu_release", **RELEASE) == {"type": 0}
    host.vfs_off()
    assert done(host, "vgpu_release", **RELEASE) == {"type": 0}


def test_a_claim_whose_vf_is_gone_can_be_dropped(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE)
    host.restart()
    assert done(host, "vgpu_release", **RELEASE) == {"type": 0}
    assert host.claims() == []


def test_where_vfs_are_off_or_take_no_types_it_is_not_found(host: NvidiaHost) -> None:
    host.vfs_off()
    error = refused(host, "vgpu_create", **CREATE)
    assert (error["code"], error["why"]) == (
        "not-found",
        "its VFs are off: turn them on by a Layout",
    )
    host.vfs_on(4, driver=None)
    assert refused(host, "vgpu_create", **CREATE)["message"] == f"{VF} takes no vGPU types"


@pytest.mark.parametrize(
    "presented",
    [
        {"fleet": "fleet-2"},
        {"claim": {**CLAIM, "allocation": "alloc-2"}},
        {"claim": {**CLAIM, "generation": 2}},
    ],
)
def test_a_claim_that_is_not_ours_is_never_touched(
    host: NvidiaHost, presented: dict[str, Any]
) -> None:
    done(host, "vgpu_create", **CREATE)
    host.log.clear()
    assert refused(host, "vgpu_create", **{**CREATE, **presented})["code"] == "claim-mismatch"
    assert refused(host, "vgpu_release", **{**RELEASE, **presented})["code"] == "claim-mismatch"
    assert changes(host) == []


def test_one_vf_is_a_vgpu_or_a_function_of_its_own_and_never_both(host: NvidiaHost) -> None:
    bind = {"address": VF, "claim": CLAIM}
    done(host, "vgpu_create", **CREATE)
    assert refused(host, "vfio_bind", **bind)["code"] == "claim-mismatch"
    assert refused(host, "vfio_release", **bind)["code"] == "claim-mismatch"
    done(host, "vgpu_release", **RELEASE)
    host.types[VF] = TYPE
    error = refused(host, "vfio_bind", **bind)
    assert (error["code"], error["message"]) == ("in-use", f"{VF} carries a vGPU")
    host.types.clear()
    done(host, "vfio_bind", **bind)
    assert refused(host, "vgpu_create", **CREATE)["code"] == "claim-mismatch"
    assert refused(host, "vgpu_release", **RELEASE)["code"] == "claim-mismatch"


def test_the_same_claim_for_something_else_is_a_mismatch(host: NvidiaHost) -> None:
    power_cut(host, "current_vgpu_type", "vgpu_create", **CREATE)
    error = refused(host, "vgpu_create", **{**CREATE, "type": OTHER_TYPE})
    assert error["code"] == "claim-mismatch"
    assert f'"type": {TYPE}' in error["why"]


def test_restore_makes_the_same_vgpu_again(host: NvidiaHost) -> None:
    extras = {"placement_id": 8, "params": {"frame_rate_limiter": 1}}
    done(host, "vgpu_create", **CREATE, **extras)
    host.restart()
    [failure] = done(host, "restore")["failed"]
    assert failure == {
        "unit": f"pci-{VF}",
        "why": f"no virtual function {VF}: its VFs are off: turn them on by a Layout",
    }
    host.vfs_on()
    assert done(host, "restore") == {"restored": [f"pci-{VF}"], "failed": []}
    seen = done(host, "vgpu_look", vf=VF)
    assert (seen["type"], seen["placement_id"]) == (TYPE, 8)
    assert seen["params"] == {"frame_rate_limiter": 1}
    host.log.clear()
    done(host, "restore")
    assert host.log == [], "once more changes nothing"


def test_restore_leaves_what_it_finds_otherwise(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE)
    host.types[VF] = OTHER_TYPE
    [failure] = done(host, "restore")["failed"]
    assert "carries a vGPU of type" in failure["why"]
    assert host.types == {VF: OTHER_TYPE}


@pytest.mark.parametrize(
    "change",
    [
        {"type": 0},
        {"type": "1147"},
        {"vf": "41:00.4"},
        {"placement_id": -1},
        {"params": {"enable_uvm": 1}},
        {"params": {"frame_rate_limiter": 2}},
        {"params": {"frame_rate_limiter": True}},
        {"params": [0]},
        {"instance": {}},
        {"instance": {"gpu": GPU, "profile_id": 19, "start": 0, "size": 1}},
        {"instance": {"gpu": GPU, "profile_id": 19, "start": 0, "size": 1, "make": 1}},
        {"instance": {"gpu": "x", "profile_id": 19, "start": 0, "size": 1, "make": True}},
    ],
)
def test_arguments_are_checked(host: NvidiaHost, change: dict[str, Any]) -> None:
    assert refused(host, "vgpu_create", **{**CREATE, **change})["code"] == "bad-argument"
    assert changes(host) == []


@pytest.mark.parametrize(
    "wanted",
    [
        {"kind": "vgpu", "vf": VF},
        {"kind": "vgpu", "vf": VF, "type": TYPE, "instance": {"gpu": GPU}},
        {"kind": "vgpu", "vf": VF, "type": TYPE, "params": {"x": 1}},
        {"kind": "fabric", "partition": 1},
        {"kind": ["vgpu"]},
    ],
)
def test_a_damaged_claim_is_unknown(host: NvidiaHost, wanted: dict[str, Any]) -> None:
    claim = {"unit": f"pci-{VF}", "fleet": "fleet-1", "epoch": 1, **CLAIM, "wanted": wanted}
    host.files[CLAIM_FILE] = json.dumps(claim)
    for verb, args in (("vgpu_look", {"vf": VF}), ("vgpu_release", RELEASE), ("claims", {})):
        assert refused(host, verb, **args)["code"] == "unknown"


def test_four_vgpus_live_beside_each_other(host: NvidiaHost) -> None:
    for number, vf in enumerate(VFS):
        claim = {**CLAIM, "allocation": f"alloc-{number}"}
        assert call(host, "vgpu_create", vf=vf, type=TYPE, claim=claim)["ok"]
    assert host.types == dict.fromkeys(VFS, TYPE)
