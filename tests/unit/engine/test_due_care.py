"""What the policy makes due about a GPU, before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.hosts.due_care import due_care, many_out
from vgpumgr.health.health_policy import HealthAction, HealthPolicy, parse_actions
from vgpumgr.model.layout import VFS_MAX, GpuLayout

FIRST, SECOND = "0000:41:00.0", "0000:43:00.0"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    found = SimWorld(tmp_path, host("A40", "A40"))
    found.cut(GpuLayout(vfs=VFS_MAX))
    found.apply(vm("a", "A40-48Q"))
    yield found
    found.close()


def of(world: SimWorld, device: str, actions: str = "") -> tuple[HealthAction | None, str]:
    world.engine.refresh()
    [gpu] = [each for each in world.ledger.gpus() if each.facts.device == device]
    care = due_care(world.engine, HealthPolicy(actions=parse_actions(actions)), gpu)
    return care.action, care.words


def test_a_gpu_that_is_well_has_nothing_due(world: SimWorld) -> None:
    assert of(world, FIRST) == (None, "")


def test_what_is_due_names_the_vms_it_is_about(world: SimWorld) -> None:
    for device in (FIRST, SECOND):
        world.sim.inject("h1", ["gpu", device, "remap-failed"])
    found = {of(world, FIRST), of(world, SECOND)}
    assert found == {(HealthAction.DRAIN, "be drained (a)"), (None, "")}
    found = {of(world, each, "replace=cordon+evacuate") for each in (FIRST, SECOND)}
    assert (HealthAction.CORDON, "be quarantined until it is lifted (a)") in found


def test_more_than_a_tenth_and_more_than_two_are_many(world: SimWorld) -> None:
    world.sim.inject("h1", ["gpu", FIRST, "remap-failed"])
    world.engine.refresh()
    [bad] = [gpu for gpu in world.ledger.gpus() if not gpu.condition.takes_vms]
    [well] = [gpu for gpu in world.ledger.gpus() if gpu.condition.takes_vms]
    assert many_out([bad, bad, well]) == ""
    assert many_out([bad, bad, bad, well]) == "3 of 4 GPUs are out: look at them"
