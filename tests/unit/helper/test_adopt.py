"""Claims for what is there already: looked at, never touched, and given up again."""

from __future__ import annotations

import pytest

from tests.unit.helper.host import (
    AUDIO,
    CLAIM,
    FLEET,
    GPU,
    UUID,
    FakeHost,
    done,
    gpu_host,
    mtty_host,
    refused,
)
from tests.unit.helper.nvidia import OTHER_TYPE, TYPE, VF, NvidiaHost, instance, vf_file

MDEV = {"parent": "mtty", "type": "mtty-1", "uuid": UUID, "claim": CLAIM}
VGPU = {"vf": VF, "type": TYPE, "claim": CLAIM}
VFIO = {"address": GPU, "with_": [AUDIO], "claim": CLAIM}
OTHERS = {"allocation": "alloc-9", "generation": 1, "vm": "theirs"}


def touched(host: FakeHost) -> list[str]:
    """The changes but for claims and what the helper notes."""
    ours = ("/var/lib/vgpumgr/", "/run/vgpumgr/")
    return [path for _, path in host.log if not path.startswith(ours)]


@pytest.fixture
def mtty() -> FakeHost:
    host = mtty_host()
    host.write("/sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/create", UUID)
    host.log.clear()
    return host


@pytest.fixture
def nvidia() -> NvidiaHost:
    host = NvidiaHost()
    host.write(vf_file("current_vgpu_type"), str(TYPE))
    host.log.clear()
    return host


@pytest.fixture
def bound() -> FakeHost:
    """A GPU that another program put on vfio-pci."""
    host = gpu_host()
    done(host, "vfio_bind", address=GPU, with_=[AUDIO], claim=OTHERS)
    host.remove(f"/var/lib/vgpumgr/claims/pci-{GPU}.json")
    host.log.clear()
    return host


def test_an_mdev_is_claimed_and_not_touched(mtty: FakeHost) -> None:
    seen = done(mtty, "mdev_adopt", **MDEV)
    assert (seen["exists"], seen["claim"]["allocation"]) == (True, CLAIM["allocation"])
    assert seen["claim"]["fleet"] == FLEET
    assert touched(mtty) == []
    assert done(mtty, "mdev_adopt", **MDEV) == seen, "repeating it is no error"
    done(mtty, "mdev_remove", uuid=UUID, claim=CLAIM)
    assert not done(mtty, "mdev_look", uuid=UUID)["exists"], "from now on it is ours to remove"


def test_an_mdev_that_differs_is_not_claimed(mtty: FakeHost) -> None:
    error = refused(mtty, "mdev_adopt", **{**MDEV, "type": "mtty-2"})
    assert (error["code"], error["why"]) == (
        "refused",
        "asked for mtty-2 on mtty, found mtty-1 on mtty",
    )
    other = UUID.replace("4b20", "4b21")
    error = refused(mtty, "mdev_adopt", **{**MDEV, "uuid": other})
    assert "no such device" in error["why"]
    assert not mtty.claims()


def test_what_anybody_claimed_is_not_adopted(mtty: FakeHost) -> None:
    done(mtty, "mdev_adopt", **{**MDEV, "claim": OTHERS})
    assert refused(mtty, "mdev_adopt", **MDEV)["code"] == "claim-mismatch"
    unit = f"mdev-{UUID}"
    assert refused(mtty, "disown", unit=unit, claim=CLAIM)["code"] == "claim-mismatch"


def test_a_claim_is_given_up_and_the_device_stays(mtty: FakeHost) -> None:
    done(mtty, "mdev_adopt", **MDEV)
    assert done(mtty, "disown", unit=f"mdev-{UUID}", claim=CLAIM) == {}
    assert done(mtty, "disown", unit=f"mdev-{UUID}", claim=CLAIM) == {}
    seen = done(mtty, "mdev_look", uuid=UUID)
    assert (seen["exists"], seen["claim"]) == (True, None)
    assert touched(mtty) == []


@pytest.mark.parametrize("unit", ["layout-0000:41:00.0", "fabric-1", "../epoch", "epoch"])
def test_only_claims_of_devices_are_given_up(mtty: FakeHost, unit: str) -> None:
    assert refused(mtty, "disown", unit=unit, claim=CLAIM)["code"] == "bad-argument"


def test_a_vgpu_on_a_vf_is_claimed_and_not_touched(nvidia: NvidiaHost) -> None:
    seen = done(nvidia, "vgpu_adopt", **VGPU, placement_id=0)
    assert (seen["type"], seen["claim"]["allocation"]) == (TYPE, CLAIM["allocation"])
    assert touched(nvidia) == []
    assert done(nvidia, "vgpu_release", vf=VF, claim=CLAIM) == {"type": 0}


def test_another_type_or_place_is_not_claimed(nvidia: NvidiaHost) -> None:
    for given in ({"type": OTHER_TYPE}, {"type": 0}, {"placement_id": 8}):
        assert refused(nvidia, "vgpu_adopt", **{**VGPU, **given})["code"] == "refused"
    assert not nvidia.claims()


def test_the_gpu_instance_must_be_there_and_is_never_made(nvidia: NvidiaHost) -> None:
    error = refused(nvidia, "vgpu_adopt", **VGPU, instance=instance(make=True))
    assert error["code"] in {"refused", "unknown", "not-found"}
    assert not nvidia.claims()


def test_functions_on_vfio_go_back_to_it_at_release(bound: FakeHost) -> None:
    done(bound, "vfio_adopt", **VFIO)
    assert touched(bound) == []
    wanted = done(bound, "vfio_look", address=GPU)["claim"]["wanted"]
    assert wanted["original_driver"] == "vfio-pci"
    assert done(bound, "vfio_release", address=GPU, claim=CLAIM) == {"driver": "vfio-pci"}
    assert (bound.driver_of(GPU), bound.driver_of(AUDIO)) == ("vfio-pci", "vfio-pci")
    assert not bound.claims()


def test_the_next_guest_of_an_adopted_function_gets_it_reset(bound: FakeHost) -> None:
    done(bound, "vfio_adopt", **VFIO)
    assert bound.files[f"/run/vgpumgr/given/{GPU}"] == "alloc-1 1\n"


def test_a_function_on_another_driver_is_not_claimed() -> None:
    host = gpu_host()
    error = refused(host, "vfio_adopt", **VFIO)
    assert error["why"] == "asked for on vfio-pci, found nvidia"
    assert not host.claims()


def test_the_claim_of_a_bind_stays_as_it_is() -> None:
    host = gpu_host()
    done(host, "vfio_bind", **VFIO)
    done(host, "vfio_adopt", **VFIO)
    assert done(host, "vfio_release", address=GPU, claim=CLAIM) == {"driver": "nvidia"}
