"""MIG GPU instances: those behind vGPUs, and those a layout declares (behaviour 8 and 13)."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.unit.helper.host import CLAIM, GPU, UUID, done, power_cut, refused
from tests.unit.helper.nvidia import (
    MIG_PROFILE,
    MIG_TYPE,
    TYPE,
    VF,
    VFS,
    NvidiaHost,
    instance,
    vf_file,
)
from tests.unit.helper.nvml import A100, Gi

SMALL, HALF = A100[0x0], A100[0x2]
OTHER = {**CLAIM, "allocation": "alloc-2"}
CREATE = {"vf": VF, "type": MIG_TYPE, "claim": CLAIM, "instance": instance(2)}
RELEASE = {"vf": VF, "claim": CLAIM}


@pytest.fixture
def host() -> NvidiaHost:
    return NvidiaHost(mig=True)


def places(host: NvidiaHost) -> list[tuple[int, int]]:
    return [(gi.profile.id, gi.start) for gi in host.gpu.instances.values()]


def declared(host: NvidiaHost, start: int, number: int = 20) -> Gi:
    """An instance that no claim made."""
    gi = host.gpu.instances[number] = Gi(number, SMALL, start)
    return gi


def made_by(host: NvidiaHost, vf: str = VF) -> Any:
    claim = done(host, "vgpu_look", vf=vf)["claim"]
    return claim and claim["wanted"]["instance"]["make"]


def test_the_instance_is_made_where_asked_and_the_vgpu_is_in_it(host: NvidiaHost) -> None:
    made = done(host, "vgpu_create", **CREATE)
    assert made["instance"] == {"id": 7, "start": 2, "size": 1}
    assert places(host) == [(MIG_PROFILE, 2)]
    assert host.homes[VF].start == 2
    assert made["claim"]["wanted"]["instance"] == instance(2)
    assert host.fake.open == 0, "every session is closed"


def test_the_claim_is_durable_before_the_instance_is_made(host: NvidiaHost) -> None:
    power_cut(host, "store /var/lib/vgpumgr/claims", "vgpu_create", **CREATE)
    assert places(host) == []
    power_cut(host, "current_vgpu_type", "vgpu_create", **CREATE)
    assert (places(host), host.claims()) == ([(MIG_PROFILE, 2)], [f"pci-{VF}.json"])
    assert done(host, "vgpu_create", **CREATE)["instance"]["start"] == 2
    assert made_by(host) is True, "the claim that was cut made it"


def test_release_destroys_what_was_made_before_the_claim_goes(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE)
    power_cut(host, "remove /var/lib/vgpumgr/claims", "vgpu_release", **RELEASE)
    assert (places(host), host.types) == ([], {})
    assert done(host, "vgpu_release", **RELEASE) == {"type": 0}
    assert host.claims() == []


def test_an_instance_that_no_claim_made_is_a_layouts_and_stays(host: NvidiaHost) -> None:
    declared(host, 2)
    done(host, "vgpu_create", **CREATE)
    assert made_by(host) is False
    done(host, "vgpu_release", **RELEASE)
    assert places(host) == [(MIG_PROFILE, 2)]


def test_without_make_the_instance_must_be_there(host: NvidiaHost) -> None:
    declared(host, 4)
    error = refused(host, "vgpu_create", **{**CREATE, "instance": instance(2, make=False)})
    assert error["message"] == "no GPU instance of profile 19 at 2"
    assert "instance 20 (profile 19 at 4:1)" in error["why"]
    assert host.claims() == []


def test_the_last_vgpu_of_a_shared_instance_destroys_it(host: NvidiaHost) -> None:
    """Blackwell: several vGPUs in one instance (6). A claim that goes hands its ``make`` on."""
    done(host, "vgpu_create", **CREATE)
    host.homes[VF].busy = False  # room for a second one
    second = {**CREATE, "vf": VFS[1], "claim": OTHER, "instance": instance(2, make=False)}
    done(host, "vgpu_create", **second)
    assert (made_by(host), made_by(host, VFS[1])) == (True, False)
    host.log.clear()
    done(host, "vgpu_release", **RELEASE)
    assert made_by(host, VFS[1]) is True
    stored = [entry for entry in host.log if "claims" in entry[1]]
    claims = "/var/lib/vgpumgr/claims"
    assert stored == [
        ("store", f"{claims}/pci-{VFS[1]}.json"),
        ("remove", f"{claims}/pci-{VF}.json"),
    ], "handed on before its own is dropped"
    assert places(host) == [(MIG_PROFILE, 2)]
    done(host, "vgpu_release", vf=VFS[1], claim=OTHER)
    assert places(host) == []


def test_an_instance_another_claim_made_is_shared_and_not_a_layouts(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE)
    host.homes[VF].busy = False
    done(host, "vgpu_create", **{**CREATE, "vf": VFS[1], "claim": OTHER})
    assert made_by(host, VFS[1]) is True


def test_an_instance_in_use_keeps_the_claim(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE)
    host.fake.fails["nvmlGpuInstanceDestroy"] = "IN_USE"
    error = refused(host, "vgpu_release", **RELEASE)
    assert (error["code"], error["errno"]) == ("in-use", "EBUSY")
    assert (host.types, host.claims()) == ({}, [f"pci-{VF}.json"])
    host.fake.fails.clear()
    done(host, "vgpu_release", **RELEASE)
    assert places(host) == []


def test_another_instance_than_asked_for_takes_everything_back(host: NvidiaHost) -> None:
    """Paragraph 6: the driver takes the lowest instance that fits, not the one just made."""
    declared(host, 0, number=3)
    error = refused(host, "vgpu_create", **CREATE)
    assert error["code"] == "refused"
    assert error["why"] == "asked for GPU instance 7, the driver chose GPU instance 3"
    assert (places(host), host.types, host.claims()) == ([(MIG_PROFILE, 0)], {}, [])


def test_no_room_names_what_is_there(host: NvidiaHost) -> None:
    host.gpu.instances[1] = Gi(1, HALF, 0)
    error = refused(host, "vgpu_create", **CREATE)
    assert (error["code"], error["errno"]) == ("refused", "ENOSPC")
    assert error["why"].endswith("there are instance 1 (profile 9 at 0:4)")
    assert host.claims() == []


def test_an_outcome_that_nobody_knows_keeps_the_claim(host: NvidiaHost) -> None:
    host.fake.fails["nvmlDeviceCreateGpuInstanceWithPlacement"] = "UNKNOWN"
    assert refused(host, "vgpu_create", **CREATE)["code"] == "unknown"
    assert host.claims() == [f"pci-{VF}.json"]


def test_a_type_that_is_refused_takes_the_instance_back(host: NvidiaHost) -> None:
    host.refuse["current_vgpu_type"] = errno.EIO
    refused(host, "vgpu_create", **CREATE)
    assert (places(host), host.claims()) == ([], [])


def test_with_mig_off_there_is_no_instance_to_make(host: NvidiaHost) -> None:
    host.gpu.mig = (0, 0)
    error = refused(host, "vgpu_create", **CREATE)
    assert (error["code"], error["message"]) == ("refused", f"MIG is off on {GPU}")
    host.gpu.mig = None
    assert refused(host, "vgpu_create", **CREATE)["why"] == "the board has no MIG"


def test_restore_makes_instance_and_vgpu_again(host: NvidiaHost) -> None:
    """Paragraph 8: instances never survive a reboot; MIG mode does."""
    done(host, "vgpu_create", **CREATE)
    host.restart()
    host.vfs_on()
    assert done(host, "restore") == {"restored": [f"pci-{VF}"], "failed": []}
    assert (places(host), host.homes[VF].start) == ([(MIG_PROFILE, 2)], 2)


def test_after_a_reboot_a_release_has_no_instance_to_destroy(host: NvidiaHost) -> None:
    done(host, "vgpu_create", **CREATE)
    host.restart()
    done(host, "vgpu_release", **RELEASE)
    assert host.claims() == []


def test_a_damaged_claim_of_another_stops_a_release(host: NvidiaHost) -> None:
    """Who else is in the instance cannot be told: it is not destroyed."""
    done(host, "vgpu_create", **CREATE)
    host.files[f"/var/lib/vgpumgr/claims/pci-{VFS[2]}.json"] = "{"
    assert refused(host, "vgpu_release", **RELEASE)["code"] == "unknown"
    assert places(host) == [(MIG_PROFILE, 2)]


# -- mdevs on VFs


@pytest.fixture
def mdevs(host: NvidiaHost) -> NvidiaHost:
    path = host.real(f"/sys/bus/pci/devices/{VF}")
    host.add_parent(VF, path, {f"nvidia-{MIG_TYPE}": 1}, 1)
    params = f"{path}/{UUID}/nvidia/vgpu_params"
    host.files[params] = "\n"
    return host


MDEV = {"parent": VF, "type": f"nvidia-{MIG_TYPE}", "uuid": UUID, "claim": CLAIM}


def test_an_mdev_on_a_vf_has_its_instance_place_and_parameters(mdevs: NvidiaHost) -> None:
    params = {"frame_rate_limiter": 0}
    extras = {"instance": instance(4), "placement_id": 8, "params": params}
    made = done(mdevs, "mdev_create", **MDEV, **extras)
    assert made["claim"]["wanted"] == {
        "kind": "mdev",
        "parent": VF,
        "type": f"nvidia-{MIG_TYPE}",
        "uuid": UUID,
        **extras,
    }
    assert places(mdevs) == [(MIG_PROFILE, 4)]
    text = mdevs.read(f"/sys/bus/mdev/devices/{UUID}/nvidia/vgpu_params")
    assert text.strip() == "vgpu-placement-id=8,frame_rate_limiter=0"
    done(mdevs, "mdev_remove", uuid=UUID, claim=CLAIM)
    assert (places(mdevs), mdevs.claims()) == ([], [])


def test_an_mdev_in_another_instance_is_taken_back(mdevs: NvidiaHost) -> None:
    path = mdevs.real(f"/sys/bus/pci/devices/{VF}")
    mdevs.files[f"{path}/{UUID}/nvidia/gpu_instance_id"] = "3\n"
    error = refused(mdevs, "mdev_create", **MDEV, instance=instance(4))
    assert error["why"] == "asked for GPU instance 7, the driver chose GPU instance 3"
    assert (places(mdevs), mdevs.claims()) == ([], [])
    assert not done(mdevs, "mdev_look", uuid=UUID)["exists"]


def test_parameters_that_an_mdev_does_not_take_take_it_back(mdevs: NvidiaHost) -> None:
    mdevs.refuse["vgpu_params"] = errno.E2BIG
    error = refused(mdevs, "mdev_create", **MDEV, params={"frame_rate_limiter": 1})
    assert (error["code"], error["errno"]) == ("refused", "E2BIG")
    assert mdevs.claims() == []


def test_an_mdev_without_room_takes_the_instance_back(mdevs: NvidiaHost) -> None:
    mdevs.write(
        f"/sys/class/mdev_bus/{VF}/mdev_supported_types/nvidia-{MIG_TYPE}/create",
        UUID[:-1] + "9",
    )
    error = refused(mdevs, "mdev_create", **MDEV, instance=instance(4))
    assert error["errno"] == "ENOSPC"
    assert (places(mdevs), mdevs.claims()) == ([], [])


# -- a layout's instances

MAKE = {"gpu": GPU, "profile_id": 19, "size": 1, "compute": []}


def test_declared_instances_at_a_place_or_where_the_driver_likes(host: NvidiaHost) -> None:
    """Paragraph 8: the driver's choice is not lowest-first."""
    assert done(host, "gi_create", **MAKE, start=2) == {
        "id": 7,
        "start": 2,
        "size": 1,
        "compute": [],
    }
    assert done(host, "gi_create", **MAKE)["start"] == 6
    host.log.clear()
    assert done(host, "gi_create", **MAKE, start=2)["id"] == 7, "already there: no error"
    assert len(host.gpu.instances) == 2


def test_compute_instances_are_made_and_completed(host: NvidiaHost) -> None:
    half = {"gpu": GPU, "profile_id": 9, "size": 4, "start": 0}
    assert done(host, "gi_create", **half, compute=[0])["compute"] == [0]
    assert done(host, "gi_create", **half, compute=[0, 1])["compute"] == [0, 1]
    assert host.gpu.instances[7].computes == {0: 0, 1: 1}
    error = refused(host, "gi_create", **half, compute=[2])
    assert error["why"] == "it has 0, 1, asked for 2"
    assert len(host.gpu.instances[7].computes) == 2


def test_an_instance_without_its_compute_instances_is_taken_back(host: NvidiaHost) -> None:
    error = refused(host, "gi_create", gpu=GPU, profile_id=14, size=2, start=0, compute=[0, 0, 0])
    assert (error["code"], error["errno"]) == ("refused", "ENOSPC")
    assert places(host) == []


def test_a_driver_that_places_otherwise_is_noticed(host: NvidiaHost) -> None:
    host.fake.chosen_start = 5
    error = refused(host, "gi_create", **MAKE, start=2)
    assert error["why"].startswith("asked for profile 19 at 2:1, the driver made instance 7")
    assert places(host) == []


@pytest.mark.parametrize(("change", "number"), [({"start": 3, "size": 2}, ""), ({"start": 9}, "")])
def test_a_place_that_the_profile_does_not_have_is_refused(
    host: NvidiaHost, change: dict[str, int], number: str
) -> None:
    error = refused(host, "gi_create", **{**MAKE, **change})
    assert (error["code"], error["errno"]) == ("refused", number or None)


DESTROY = {"gpu": GPU, "id": 20, "profile_id": 19, "start": 2}


def test_destroying_takes_compute_instances_first(host: NvidiaHost) -> None:
    """Paragraph 8: a GPU instance with compute instances is IN_USE."""
    declared(host, 2).computes = {0: 0}
    assert done(host, "gi_destroy", **DESTROY) == {}
    assert places(host) == []
    assert done(host, "gi_destroy", **DESTROY) == {}, "absent is no error"


def test_another_instance_of_that_id_is_not_destroyed(host: NvidiaHost) -> None:
    declared(host, 3)
    error = refused(host, "gi_destroy", **DESTROY)
    assert error["why"] == "asked for profile 19 at 2, there is instance 20 (profile 19 at 3:1)"
    assert places(host) == [(MIG_PROFILE, 3)]


def test_an_instance_under_a_vgpu_or_a_claim_is_not_destroyed(host: NvidiaHost) -> None:
    declared(host, 2)
    host.write(vf_file("current_vgpu_type"), str(MIG_TYPE))
    error = refused(host, "gi_destroy", **DESTROY)
    assert (error["code"], error["why"]) == ("in-use", VF)
    host.write(vf_file("current_vgpu_type"), "0")
    power_cut(host, "current_vgpu_type", "vgpu_create", **CREATE)
    assert refused(host, "gi_destroy", **DESTROY)["why"] == f"the claim pci-{VF}"


def test_an_instance_with_processes_is_in_use(host: NvidiaHost) -> None:
    declared(host, 2).busy = True
    error = refused(host, "gi_destroy", **DESTROY)
    assert (error["code"], error["errno"]) == ("in-use", "EBUSY")


def test_a_destruction_without_effect_is_unknown(host: NvidiaHost) -> None:
    declared(host, 2)
    host.fake.answers["nvmlGpuInstanceDestroy"] = 0
    assert refused(host, "gi_destroy", **DESTROY)["code"] == "unknown"


def test_instances_that_may_not_be_read_are_not_absent(host: NvidiaHost) -> None:
    declared(host, 2)
    host.fake.fails["nvmlDeviceGetGpuInstances"] = "NO_PERMISSION"
    assert refused(host, "gi_destroy", **DESTROY)["code"] == "not-permitted"
    assert refused(host, "vgpu_create", **CREATE)["code"] == "not-permitted"
    host.fake.fails = {"nvmlDeviceGetMigMode": "UNKNOWN"}
    assert refused(host, "gi_destroy", **DESTROY)["code"] == "unknown"


def test_a_time_sliced_vgpu_needs_no_nvml(host: NvidiaHost) -> None:
    host.gpu.mig = (0, 0)
    host.library = None
    assert done(host, "vgpu_create", vf=VF, type=TYPE, claim=CLAIM)["type"] == TYPE
