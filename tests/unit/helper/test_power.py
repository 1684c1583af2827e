"""Power limit and locked clocks over the stand-in library: set, read back, refused, restored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.helper.host import CLAIM, GPU, done, refused
from tests.unit.helper.nvidia import NvidiaHost

LIMITS = (100_000, 300_000, 250_000)
KEY = {"allocation": "gpu-1", "generation": 3, "vm": "power"}


@pytest.fixture
def host() -> NvidiaHost:
    made = NvidiaHost()
    made.gpu.limits, made.gpu.limit = LIMITS, 250_000
    return made


def power(host: NvidiaHost) -> Any:
    return done(host, "gpu_look", gpu=GPU)["nvml"]["power"]


def test_the_enforced_limit_is_told_with_its_bounds_in_whole_watts(host: NvidiaHost) -> None:
    host.gpu.limits = (83_333, 250_500, 250_000)
    told = {"limit_w": 250, "default_w": 250, "least_w": 84, "most_w": 250, "locked_clocks": []}
    assert power(host) == told


def test_a_driver_that_tells_no_limit_has_none(host: NvidiaHost) -> None:
    host.gpu.limits = None
    assert power(host) is None
    assert refused(host, "power_limit_set", gpu=GPU, watts=200)["code"] == "refused"


def test_a_limit_is_set_with_persistence_and_read_back(host: NvidiaHost) -> None:
    assert done(host, "power_limit_set", gpu=GPU, watts=200) == {"watts": 200}
    assert (host.gpu.limit, host.gpu.persistent, power(host)["limit_w"]) == (200_000, 1, 200)
    done(host, "power_limit_set", gpu=GPU, watts=0)
    assert host.gpu.limit == 250_000


@pytest.mark.parametrize("watts", [1, 99, 301])
def test_a_limit_outside_the_bounds_is_refused_and_never_moved(
    host: NvidiaHost, watts: int
) -> None:
    found = refused(host, "power_limit_set", gpu=GPU, watts=watts)
    assert (found["code"], "100 to 300 W" in found["why"]) == ("refused", True)
    assert host.gpu.limit == 250_000


def test_a_driver_that_takes_the_call_without_effect_is_found_out(host: NvidiaHost) -> None:
    host.fake.answers["nvmlDeviceSetPowerManagementLimit"] = None
    found = refused(host, "power_limit_set", gpu=GPU, watts=200)
    assert "250 W are enforced afterwards" in found["why"]


def test_locked_clocks_are_noted_until_the_next_boot(host: NvidiaHost) -> None:
    done(host, "clocks_lock", gpu=GPU, range=[210, 1200])
    assert (host.gpu.clocks, power(host)["locked_clocks"]) == ((210, 1200), [210, 1200])
    done(host, "clocks_lock", gpu=GPU, range=[])
    assert (host.gpu.clocks, power(host)["locked_clocks"]) == (None, [])


def test_clocks_that_the_driver_refuses_to_lock_are_not_noted(host: NvidiaHost) -> None:
    host.fake.fails["nvmlDeviceSetGpuLockedClocks"] = "NO_PERMISSION"
    assert refused(host, "clocks_lock", gpu=GPU, range=[1, 2])["code"] == "not-permitted"
    assert power(host)["locked_clocks"] == []


@pytest.mark.parametrize("wanted", [[1], [1, 2, 3], [5, 4], [0, 100_001], "210", [True, 2]])
def test_what_is_no_range_is_a_bad_argument(host: NvidiaHost, wanted: object) -> None:
    assert refused(host, "clocks_lock", gpu=GPU, range=wanted)["code"] == "bad-argument"


def test_turning_vfs_off_forgets_the_note(host: NvidiaHost) -> None:
    done(host, "clocks_lock", gpu=GPU, range=[210, 1200])
    done(host, "vfs_set", gpu=GPU, count=0)
    assert power(host)["locked_clocks"] == []


@pytest.mark.parametrize("text", ["{", "[1]", '["a", "b"]', "[-1, 5]", "null"])
def test_a_note_that_is_damaged_says_nothing(host: NvidiaHost, text: str) -> None:
    host.store(f"/run/vgpumgr/clocks/{GPU}", text)
    assert power(host)["locked_clocks"] == []


def test_a_boot_brings_both_back(host: NvidiaHost) -> None:
    done(host, "layout_claim", gpu=GPU, claim=KEY, power_limit=180, locked_clocks=[210, 900])
    host.restart()
    host.gpu.limit, host.gpu.clocks = 250_000, None
    assert done(host, "restore") == {"restored": [f"layout-{GPU}"], "failed": []}
    assert (host.gpu.limit, host.gpu.clocks) == (180_000, (210, 900))


def test_a_limit_that_does_not_come_back_is_named(host: NvidiaHost) -> None:
    done(host, "layout_claim", gpu=GPU, claim=KEY, power_limit=180)
    host.fake.fails["nvmlDeviceSetPowerManagementLimit"] = "UNKNOWN"
    [failed] = done(host, "restore")["failed"]
    assert "the power limit of" in failed["why"]


@pytest.mark.parametrize("refusal", [None, "UNKNOWN"])
def test_a_gpu_that_a_guest_had_whole_comes_back_with_both_and_comes_back_in_any_case(
    refusal: str | None,
) -> None:
    host = NvidiaHost(vfs=False)
    host.gpu.limits, host.gpu.limit = LIMITS, 250_000
    done(host, "layout_claim", gpu=GPU, claim=KEY, power_limit=180, locked_clocks=[210, 900])
    done(host, "vfio_bind", address=GPU, with_=[], claim=CLAIM)
    if refusal:
        host.fake.fails["nvmlDeviceSetPowerManagementLimit"] = refusal
    assert done(host, "vfio_release", address=GPU, claim=CLAIM)["driver"] == "nvidia"
    back = (250_000, (210, 900)) if refusal else (180_000, (210, 900))
    assert (host.gpu.limit, host.gpu.clocks) == back
    assert power(host)["locked_clocks"] == [210, 900]
    assert host.claims() == [f"layout-{GPU}.json"]
