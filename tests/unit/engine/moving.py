"""A VM that is moved between two hosts, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.movers import desk, make, two_hosts
from tests.world import World
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.vm import VmState


@contextmanager
def desk_of_two(folder: Path) -> Iterator[World]:
    """Two hosts, and the VM ``desk`` that runs on the first."""
    made = two_hosts(folder)
    make(made, desk())
    yield made
    made.close()


def moved(world: World, **options: object) -> None:
    world.engine.migrate("desk", "h2", **options).raise_for_failure()  # type: ignore[arg-type]


def refused(world: World, kind: type[VgpumgrError], *, cold: bool = False) -> str:
    """The refusal's words; nothing was changed on either host or in the ledger."""
    before = [host.left() for host in world.hosts.values()]
    with pytest.raises(VgpumgrError) as raised:
        world.engine.migrate("desk", "h2", cold=cold)
    assert type(raised.value) is kind, raised.value.why
    assert [host.left() for host in world.hosts.values()] == before
    assert world.vm("desk").state is VmState.ACTIVE
    assert len(world.ledger.allocations()) <= 1
    assert raised.value.next
    return f"{raised.value.message} {raised.value.why}"
