"""A change that was cut, and what its user did with the VM before somebody went on with it.

Found by the soak: an old change turned power on for a VM that had been stopped since, and made
devices of a host that the VM had left.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.movers import desk, make, two_hosts
from tests.property.test_engine_kill_points import Killed, Mortal
from tests.world import World
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.vm import VmSpec

SPEC = desk()
CHANGED = replace(SPEC, vcpus=4)


def cut_change(world: World, at: int) -> bool:
    """Begin a change that needs a restart, and die at its n-th write; False when it has fewer."""
    mortal = Mortal(world.ledger, at, after=False)
    try:
        world.engine_over(mortal).apply([CHANGED], restart=True)  # type: ignore[arg-type]
    except Killed:
        world.restart()
        return True
    return False


def worlds(folder: Path, spec: VmSpec = SPEC) -> World:
    made = two_hosts(folder)
    make(made, spec)
    return made


@pytest.mark.parametrize("ends", ["apply", "resume"])
def test_what_was_stopped_since_stays_off(tmp_path: Path, ends: str) -> None:
    for at in count(2):
        world = worlds(tmp_path / str(at))
        killed = cut_change(world, at)
        world.engine.stop_vms(["desk"], force=True, timeout_s=1).raise_for_failure()
        if ends == "apply":
            world.engine.apply([CHANGED], restart=True)[1].raise_for_failure()
        for operation in world.ledger.operations(open_only=True):
            world.engine.resume(operation.id)
        found = world.host.domains_by_name["desk"]
        assert (found.state, world.vm("desk").running) == (DomainState.SHUTOFF, False), at
        assert ">4</vcpu>" in world.host.xml_by_name["desk"]
        assert world.settled()
        world.close()
        if not killed:
            break
    assert at > 4


def test_what_was_given_back_by_a_move_is_not_made_again(tmp_path: Path) -> None:
    for at in count(2):
        world = worlds(tmp_path / str(at))
        killed = cut_change(world, at)
        with suppress(VgpumgrError):
            for to in ("h2", "h1"):
                world.engine.migrate("desk", to, cold=True).raise_for_failure()
        for operation in world.ledger.operations(open_only=True):
            world.engine.resume(operation.id)
        held = {each.id for each in world.ledger.allocations()}
        for host in world.hosts.values():
            assert {str(claim["allocation"]) for claim in host.claims.values()} <= held, at
            assert host.name == world.vm("desk").host or not host.domains_by_name
        assert world.settled()
        world.close()
        if not killed:
            break
    assert at > 4
