"""What long soaks have found, as short as it gets; the same steps must hold from then on."""

from __future__ import annotations

import pytest

from tests.soak.machine import Soak
from tests.soak.strikes import Kind, Strike


def test_a_vm_that_a_power_cut_has_stopped_moves_off() -> None:
    state = Soak()
    state.plot(plot="mdev")
    state.create(kind=4, name="a", strike=None)
    state.migrate(cold=False, name="a", strike=Strike(Kind.POWER, at=4, after=False), to="h2")
    state.holds()
    state.teardown()


def test_a_domain_that_took_the_name_of_a_vm_is_not_started() -> None:
    state = Soak()
    state.plot(plot="mdev")
    state.create(kind=4, name="a", strike=None)
    state.power(name="a", verb="stop hard", strike=None)
    state.meddle(name="a", what="virsh undefine")
    [vm] = state._field.books.vms.values()
    state.event(host=vm.host, n=1, name="a", what="foreign domain")
    state.power(name="a", verb="start", strike=None)
    state.holds()
    state.teardown()


def test_mixed_sizes_that_the_last_layout_leaves_alone_outlive_a_power_cut() -> None:
    state = Soak()
    state.plot(plot="vf")
    state.event(host="h2", n=0, name="a", what="cordon")
    state.layout(choice=1, host="h1", strike=None)
    state.layout(choice=0, host="h1", strike=None)
    state.apply_some(cpus=1, kind=0, names=["a", "b"], partial=False, strike=None)
    cut = Strike(Kind.POWER, at=12, after=False)
    state.apply_some(cpus=2, kind=0, names=["a", "b"], partial=False, strike=cut)
    state.holds()
    state.teardown()


def test_a_fleet_that_went_back_in_time_takes_in_its_own_beside_another() -> None:
    state = Soak()
    state.plot(plot="mdev")
    state.apply_some(cpus=1, kind=0, names=["a", "b"], partial=False, strike=None)
    state.neighbour(what="goes back", name="y", host="h1", kind=0)
    state.holds()
    assert set(state._field.beside.books.vms) == {"y"}
    state.neighbour(what="heals", name="y", host="h1", kind=0)
    state.holds()
    state.teardown()


def test_what_befalls_the_other_fleet_is_seen() -> None:
    state = Soak()
    state.plot(plot="vf")
    state.neighbour(what="makes or deletes", name="y", host="h1", kind=0)
    state.holds()
    state._field.world.sim.host("h1").domains.destroy("y")
    with pytest.raises(AssertionError, match="y: power is not True"):
        state.holds()
    state.teardown()


def test_what_a_cut_move_has_reserved_another_fleet_may_take() -> None:
    state = Soak()
    state.plot(plot="shared instance")
    state.create(kind=0, name="a", strike=None)
    cut = Strike(Kind.CUT, at=15, after=False)
    state.migrate(cold=False, name="a", strike=cut, to="h2")
    state.neighbour(what="makes or deletes", name="y", host="h2", kind=0)
    state.holds()
    [theirs] = state._field.beside.books.allocations
    _, reserved = state._field.books.allocations
    assert (reserved.host, reserved.device) == (theirs.host, theirs.device)
    state.neighbour(what="turns on or off", name="y", host="h2", kind=0)
    state.finish(choice=0, back=False, strike=None)  # its claim alone holds the device of y
    state.holds()
    assert [each.host for each in state._field.books.allocations] == ["h1"]
    state.neighbour(what="turns on or off", name="y", host="h2", kind=0)
    state.holds()
    assert not state._field.beside.shaken
    state.teardown()
