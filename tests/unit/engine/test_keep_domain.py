"""A definition kept is whole only once its flag is set too: the process may die in between."""

from __future__ import annotations

from pathlib import Path

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.steps.repair_steps import KeepDomain
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.operation import Differs, InState


def test_a_definition_without_its_autostart_is_not_in_state(tmp_path: Path) -> None:
    world = SimWorld(tmp_path, host("T4"))
    world.apply(vm("desk", autostart=True))
    there = world.hosts.open(world.ledger.host("h1"))
    xml, vm_id = there.domains.xml("desk"), world.ledger.vm("desk").id
    step = KeepDomain(name="desk", vm_id=vm_id, xml=xml, autostart=True)
    there.domains.set_autostart("desk", on=False)
    assert isinstance(step.look(there), Differs)
    step.act(there, SystemClock())
    assert step.look(there) == InState()
    world.close()
