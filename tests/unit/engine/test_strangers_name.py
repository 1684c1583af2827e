"""A domain of another hand that took the name of one of our VMs is never touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.simworld import SimWorld, host, vm
from tests.soak.hands import Hands
from vgpumgr.engine.steps.domain_steps import RebootDomain, StartDomain, StopDomain, UndefineDomain
from vgpumgr.engine.steps.move_steps import ClearAutostart, StopToMove
from vgpumgr.engine.steps.step import Step, UndoNotPossible
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.ports import Domains, Host


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"))
    made.apply(vm("desk", "T4-4Q"))
    made.engine.stop_vms(["desk"], force=True, timeout_s=1).raise_for_failure()
    yield made
    made.close()


def taken(world: SimWorld, *, run: bool) -> tuple[str, DomainState | None, bool]:
    """Our domain is undefined by hand, and another one has its name; how that one is."""
    hands = Hands(world.sim)
    if world.sim.host("h1").domains.look("desk").ownership is not None:  # type: ignore[union-attr]
        assert hands.forget("h1", "desk")
        assert hands.make_domain("h1", "desk", 7, run=run)
    domains = world.sim.host("h1").domains
    found = domains.look("desk")
    assert found is not None
    return domains.xml("desk"), found.state, found.autostart


COMMANDS: dict[str, Callable[[Engine], object]] = {
    "start": lambda engine: engine.start(["desk"]).raise_for_failure(),
    "stop": lambda engine: engine.stop_vms(["desk"], force=True, timeout_s=1).raise_for_failure(),
    "reboot": lambda engine: engine.reboot(["desk"], force=True).raise_for_failure(),
    "apply": lambda engine: engine.apply([vm("desk", "T4-4Q")])[1].raise_for_failure(),
    "change": lambda engine: engine.apply([vm("desk", "T4-4Q", vcpus=2)])[1].raise_for_failure(),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("run", [False, True])
def test_no_command_touches_it(world: SimWorld, command: str, run: bool) -> None:
    before = taken(world, run=run)
    try:
        COMMANDS[command](world.engine)
    except VgpumgrError as error:
        assert "not ours" in str(error) or "needs a stop" in str(error), error
    assert taken(world, run=run) == before


STEPS: dict[str, Callable[[Step, Host], object]] = {
    "act": lambda step, host: step.act(host, FakeClock()),
    "undo": lambda step, host: step.undo(host),
}


@pytest.mark.parametrize("way", STEPS)
@pytest.mark.parametrize("kind", [StartDomain, StopDomain, RebootDomain, ClearAutostart])
@pytest.mark.parametrize("run", [False, True])
def test_no_step_touches_it(world: SimWorld, kind: type[Step], way: str, run: bool) -> None:
    before = taken(world, run=run)
    here = world.hosts.open(world.ledger.host("h1"))
    owner = world.ledger.vm("desk").id
    try:
        STEPS[way](kind(name="desk", vm_id=owner), here)  # type: ignore[call-arg]
    except UndoNotPossible:
        assert way == "undo"
    except VgpumgrError as error:
        assert "not ours" in str(error), error
    assert taken(world, run=run) == before


def test_a_cold_move_does_not_stop_it(world: SimWorld) -> None:
    before = taken(world, run=True)
    here = world.hosts.open(world.ledger.host("h1"))
    step = StopToMove(name="desk", vm_id=world.ledger.vm("desk").id, timeout_s=1)
    with pytest.raises(VgpumgrError, match="not ours"):
        step.act(here, FakeClock())
    assert taken(world, run=True) == before


@pytest.mark.parametrize("kind", [StartDomain, StopDomain, RebootDomain, UndefineDomain])
@pytest.mark.parametrize("run", [False, True])
def test_nor_one_that_took_the_name_right_after_the_look(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch, kind: type[Step], run: bool
) -> None:
    if kind in {StopDomain, RebootDomain}:
        world.engine.start(["desk"]).raise_for_failure()
    here, owner = world.hosts.open(world.ledger.host("h1")), world.ledger.vm("desk").id
    before: list[object] = []
    look = type(here.domains).look

    def looked(domains: Domains, name: str) -> DomainFacts | None:
        found = look(domains, name)  # type: ignore[arg-type]
        if not before:
            world.sim.host("h1").domains.destroy("desk")
            before.append(taken(world, run=run))
        return found

    monkeypatch.setattr(type(here.domains), "look", looked)
    with suppress(VgpumgrError):
        kind(name="desk", vm_id=owner).act(here, FakeClock())  # type: ignore[call-arg]
    assert taken(world, run=run) == before[0]
