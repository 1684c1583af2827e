"""Layout claims: whose a GPU's partitioning is, and what the claim does and does not hold back."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from tests.unit.helper.host import CLAIM, FLEET, GPU, PowerCut, call, done, refused
from tests.unit.helper.nvidia import MIG_PROFILE, MIG_TYPE, VF, NvidiaHost, instance
from vgpumgr.helper.dispatch import VERBS

GPU_KEY = {"allocation": "gpu-1", "generation": 3, "vm": "cut"}
SLICE = {"profile_id": MIG_PROFILE, "start": 2, "size": 1, "compute": []}
PARTS: dict[str, Any] = {"mig": True, "vfs": 4, "instances": [SLICE]}
UNIT = f"layout-{GPU}"
PARTITIONING = {
    "layout_claim": {"claim": GPU_KEY},
    "layout_forget": {"claim": GPU_KEY},
    "mig_mode_set": {"enabled": True},
    "vfs_set": {"count": 0},
    "mixed_size_set": {"enabled": True},
    "scheduler_set": {"policy": "equal-share"},
    "power_limit_set": {"watts": 100},
    "clocks_lock": {"range": [210, 1200]},
    "gpu_reset": {},
    "gi_create": {**SLICE},
    "gi_destroy": {"id": 7, "profile_id": MIG_PROFILE, "start": 2},
}


@pytest.fixture
def host() -> NvidiaHost:
    return NvidiaHost(mig=True)


def claimed(host: NvidiaHost, **changed: Any) -> dict[str, Any]:
    given = {"gpu": GPU, "claim": GPU_KEY, **PARTS, **changed}
    return dict(done(host, "layout_claim", **given)["claim"])


def test_a_claim_has_the_declared_parts_alone_and_changes_no_gpu(host: NvidiaHost) -> None:
    written = {"kind": "layout", "gpu": GPU, **PARTS}
    who = {"unit": UNIT, "fleet": FLEET, "epoch": 1, **GPU_KEY}
    assert claimed(host) == {**who, "wanted": written}
    assert done(host, "claims") == {"claims": [claimed(host)]}
    assert claimed(host, mig=None, vfs=None, instances=[])["wanted"] == {
        "kind": "layout",
        "gpu": GPU,
        "instances": [],
    }
    assert {what for what, path in host.log if "vgpumgr" not in path} == set()


@pytest.mark.parametrize(
    "parts",
    [
        {"mig": 1},
        {"vfs": -1},
        {"mixed_size": "yes"},
        {"scheduler": "round-robin"},
        {"instances": {}},
        {"instances": [{**SLICE, "start": None}]},
        {"instances": [{**SLICE, "compute": [-1]}]},
        {"instances": [{**SLICE, "id": 3}]},
        {"instances": [SLICE] * 17},
        {"gpu": "41:00.0"},
    ],
)
def test_a_part_that_makes_no_sense_is_refused_here_and_in_a_claim_that_was_read(
    host: NvidiaHost, parts: dict[str, Any]
) -> None:
    error = refused(host, "layout_claim", **{"gpu": GPU, "claim": GPU_KEY, **parts})
    assert error["code"] == "bad-argument"
    assert host.claims() == []
    found = claimed(host)
    found["wanted"] |= parts
    host.files[f"/var/lib/vgpumgr/claims/{UNIT}.json"] = json.dumps(found)
    assert refused(host, "claims")["code"] == "unknown"


def test_no_claim_for_a_gpu_that_is_not_there(host: NvidiaHost) -> None:
    gone = {"gpu": "0000:99:00.0", "claim": GPU_KEY, **PARTS}
    assert refused(host, "layout_claim", **gone)["code"] == "not-found"
    assert host.claims() == []


def test_a_newer_layout_takes_the_place_of_an_older_one_and_never_the_reverse(
    host: NvidiaHost,
) -> None:
    claimed(host)
    newer = {**GPU_KEY, "generation": 4, "vm": "recut"}
    assert claimed(host, claim=newer, vfs=0)["vm"] == "recut"
    error = refused(host, "layout_claim", gpu=GPU, claim=GPU_KEY, **PARTS)
    assert (error["code"], "newer layout" in error["message"]) == ("claim-mismatch", True)
    restored_store = call(host, "layout_claim", epoch=2, gpu=GPU, claim=GPU_KEY, **PARTS)
    assert restored_store["result"]["claim"]["generation"] == 3


def test_another_card_in_the_slot_has_a_layout_of_its_own(host: NvidiaHost) -> None:
    claimed(host)
    swapped = {"allocation": "gpu-2", "generation": 1, "vm": "cut"}
    assert claimed(host, claim=swapped)["allocation"] == "gpu-2"


def test_a_gpu_that_moved_takes_its_layout_along(host: NvidiaHost) -> None:
    claimed(host)
    host.add_function("0000:81:00.0", driver="nvidia", group=40)
    claimed(host, gpu="0000:81:00.0")
    assert host.claims() == ["layout-0000:81:00.0.json"]


@pytest.mark.parametrize("verb", PARTITIONING)
def test_another_fleets_layout_is_never_broken(host: NvidiaHost, verb: str) -> None:
    claimed(host)
    before = len(host.log)
    error = refused(host, verb, fleet="fleet-2", gpu=GPU, **PARTITIONING[verb])
    assert error["code"] == "claim-mismatch"
    assert f"layout cut of fleet {FLEET}" in error["why"]
    assert [path for _, path in host.log[before:] if "/epochs/" not in path] == []


def test_the_verbs_above_are_all_that_change_partitioning() -> None:
    assert {name for name, verb in VERBS.items() if verb.controlled and "gpu" in verb.takes} == {
        *PARTITIONING
    }


def test_a_layout_that_cannot_be_read_stops_the_change(host: NvidiaHost) -> None:
    host.files[f"/var/lib/vgpumgr/claims/{UNIT}.json"] = "{"
    assert refused(host, "vfs_set", gpu=GPU, count=0)["code"] == "unknown"
    host.files[f"/var/lib/vgpumgr/claims/{UNIT}.json"] = "{}"
    host.unreadable[f"/var/lib/vgpumgr/claims/{UNIT}"] = errno.EIO
    assert refused(host, "vfs_set", gpu=GPU, count=0)["code"] == "unknown"


def test_our_own_layout_holds_no_change_of_it_back(host: NvidiaHost) -> None:
    claimed(host)
    made = done(host, "gi_create", gpu=GPU, **SLICE)
    place = {"id": made["id"], "profile_id": MIG_PROFILE, "start": 2}
    done(host, "gi_destroy", gpu=GPU, **place)
    done(host, "vfs_set", gpu=GPU, count=0)


def test_forgetting_a_layout_needs_its_claim(host: NvidiaHost) -> None:
    claimed(host)
    other = {**GPU_KEY, "generation": 4}
    assert refused(host, "layout_forget", gpu=GPU, claim=other)["code"] == "claim-mismatch"
    done(host, "layout_forget", gpu=GPU, claim=GPU_KEY)
    done(host, "layout_forget", gpu=GPU, claim=GPU_KEY)
    assert host.claims() == []


def test_our_layouts_hold_no_host_back_and_are_named(host: NvidiaHost) -> None:
    claimed(host)
    assert refused(host, "forget", fleet="fleet-2")["why"] == UNIT
    host.files["/var/lib/vgpumgr/claims/pci-x.json"] = "{"
    assert refused(host, "forget")["why"] == "pci-x"
    del host.files["/var/lib/vgpumgr/claims/pci-x.json"]
    assert done(host, "forget") == {"layouts": [GPU]}
    assert host.claims() == []


def test_an_instance_that_a_layout_declares_outlives_the_vgpu_it_was_made_for(
    host: NvidiaHost,
) -> None:
    made = {"vf": VF, "type": MIG_TYPE, "instance": instance(), "claim": CLAIM}
    done(host, "vgpu_create", **made)
    claimed(host)
    done(host, "vgpu_release", vf=VF, claim=CLAIM)
    assert [(each.profile.id, each.start) for each in host.gpu.instances.values()] == [(19, 2)]


def test_a_claim_that_was_cut_leaves_the_older_one(host: NvidiaHost) -> None:
    claimed(host)
    host.cut_before = f"store /var/lib/vgpumgr/claims/{UNIT}"
    with pytest.raises(PowerCut):
        claimed(host, claim={**GPU_KEY, "generation": 4})
    host.cut_before, host.locks = None, 0
    assert done(host, "claims")["claims"][0]["generation"] == 3
