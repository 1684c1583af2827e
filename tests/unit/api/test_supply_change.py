"""What hosts show otherwise is noticed, though the trail has no record of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import vm
from tests.unit.engine.foreign import T4, Hands, hands
from vgpumgr.api import trail_follower
from vgpumgr.api.trail_follower import SupplyChange


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hands]:
    """A host that was seen, where it is always time to look."""
    monkeypatch.setattr(trail_follower, "LOOK_S", 0.0)
    with hands(tmp_path, T4) as made:
        made.world.engine.refresh()
        yield made


def test_a_device_of_another_hand_is_new_once_and_a_look_alone_is_not(seen: Hands) -> None:
    ledger = seen.world.ledger
    supply, end = SupplyChange(ledger), ledger.trail_since(None).end
    assert not supply.is_new(), "the first look"
    seen.world.engine.refresh()
    assert not supply.is_new(), "the host shows what it showed"
    seen.mdev("T4-4Q")
    seen.world.engine.refresh()
    assert supply.is_new()
    assert not supply.is_new()
    assert ledger.trail_since(None).end == end, "no record tells of it"


def test_a_vm_is_new(seen: Hands) -> None:
    supply = SupplyChange(seen.world.ledger)
    assert not supply.is_new(), "the first look"
    seen.world.apply(vm("a", "T4-4Q"))
    assert supply.is_new()
