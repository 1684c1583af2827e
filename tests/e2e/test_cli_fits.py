"""\"Fits N more\" at its word: N more VMs succeed, and the next is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, new_cli, vm

A100 = ("A100-PCIE-80GB", 1)
# The size that is there already, the smallest, the largest, and a whole GPU.
PROFILES = ("T4-4Q", "T4-1B", "T4-16Q", "passthrough")


@pytest.fixture(scope="module", params=["breadth-first", "depth-first"])
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cli(policy: str) -> Iterator[Cli]:
    """A host with a T4 or two and a board to give whole; one vGPU is there, the rest is empty."""
    with pytest.MonkeyPatch.context() as patch, new_cli() as found:
        patch.setenv("VGPUMGR_POLICY", policy)
        boards = [("T4", 2), A100] if policy == "depth-first" else [("T4", 1), A100]
        found.sim_up(host("one", *boards, cpus=12, memory="64GiB"))
        found.ok("apply", "-f", found.documents(vm("there", "T4-4Q")))
        yield found


def test_for_every_profile_that_many_more_succeed_and_the_next_is_refused(
    cli: Cli, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPUMGR_POLICY", policy)
    rooms = cli.items("capacity", *PROFILES, "--vcpus", "1", "--memory", "1GiB")
    assert {room["name"] for room in rooms} == set(PROFILES)
    for room in rooms:
        profile, fits = room["name"], room["fits"]
        if fits:
            more = cli.documents(vm("more", profile, replicas=fits))
            cli.ok("apply", "-f", more)
        one = cli.documents(vm("next", profile), name="next.yaml")
        refused = cli.fails(5, "apply", "-f", one, "-o", "json")
        assert refused.error["code"] == "placement.none", profile
        assert cli.items("capacity", profile, "--vcpus", "1", "--memory", "1GiB")[0]["fits"] == 0
        if fits:
            cli.ok("delete", "-f", more, "--force", "-y")
    assert cli.items("capacity", *PROFILES, "--vcpus", "1", "--memory", "1GiB") == rooms


def test_the_processors_and_memory_of_the_host_bound_it_too(
    cli: Cli, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPUMGR_POLICY", policy)
    (room,) = cli.items("capacity", "T4-4Q", "--vcpus", "20", "--memory", "16GiB")
    assert room["fits"] == 2
    big = {"vcpus": 20, "memory": "16GiB"}
    more = cli.documents(vm("big", "T4-4Q", replicas=2, **big))
    cli.ok("apply", "-f", more)
    cli.fails(5, "apply", "-f", cli.documents(vm("next", "T4-4Q", **big), name="next.yaml"))
    cli.ok("delete", "-f", more, "--force", "-y")
