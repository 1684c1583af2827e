"""Marks of the fleets that share a host: each takes its own away, the last one all state."""

from __future__ import annotations

import pytest

from tests.unit.helper.host import (
    AUDIO,
    CLAIM,
    GPU,
    FakeHost,
    done,
    gpu_host,
    power_cut,
    refused,
)

STATE = "/var/lib/vgpumgr"


@pytest.fixture
def host() -> FakeHost:
    return gpu_host()


def state(host: FakeHost) -> list[str]:
    return sorted(path.removeprefix(f"{STATE}/") for path in host.files if path.startswith(STATE))


def test_a_fleet_joins_and_leaves_and_saying_it_twice_is_no_error(host: FakeHost) -> None:
    for _ in range(2):
        assert done(host, "fleet_join") == {"fleets": ["fleet-1"]}
    assert state(host) == ["epochs/fleet-1", "fleets/fleet-1"]
    for _ in range(2):
        assert done(host, "fleet_leave") == {"fleets": []}
    assert state(host) == []


def test_the_last_fleet_takes_all_state_and_no_other(host: FakeHost) -> None:
    done(host, "fleet_join")
    done(host, "fleet_join", fleet="fleet-2")
    assert done(host, "fleet_leave", fleet="fleet-2") == {"fleets": ["fleet-1"]}
    assert state(host) == ["epochs/fleet-1", "epochs/fleet-2", "fleets/fleet-1"]
    done(host, "forget")
    assert state(host) == []


def test_claims_outlive_the_mark(host: FakeHost) -> None:
    done(host, "fleet_join")
    done(host, "vfio_bind", address=GPU, with_=[AUDIO], claim=CLAIM)
    done(host, "fleet_leave")
    assert host.claims() == [f"pci-{GPU}.json"]
    done(host, "vfio_release", address=GPU, claim=CLAIM)


def test_another_fleets_claims_hold_nobody_who_leaves_it_the_host(host: FakeHost) -> None:
    done(host, "fleet_join")
    done(host, "fleet_join", fleet="fleet-2")
    done(host, "vfio_bind", address=GPU, with_=[AUDIO], claim=CLAIM)
    assert refused(host, "forget")["code"] == "in-use"
    assert done(host, "forget", fleet="fleet-2") == {"layouts": []}
    epochs = ["epochs/fleet-1", "epochs/fleet-2"]
    assert state(host) == [f"claims/pci-{GPU}.json", *epochs, "fleets/fleet-1"]


def test_a_host_that_dies_while_it_is_left_can_be_left_again(host: FakeHost) -> None:
    done(host, "fleet_join")
    power_cut(host, f"{STATE}/epochs/fleet-1", "forget")
    assert "fleets/fleet-1" not in state(host)
    done(host, "forget")
    assert state(host) == []
