"""GPU instances and compute instances in MIG mode: where they lie and what refuses them (§8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.bench import Cases
from tests.contract.mig_bench import MigBench
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.gpu import GpuInstance

GUIDE_ORDER = [6, 4, 5, 0, 1, 2, 3]

CASES = Cases[MigBench]()
# For an A100 or H100 that fills its slots as the one in NVIDIA's guide.
GUIDE_CARD_CASES = Cases[MigBench]()
# For a host with several GPUs of one board.
CARDS_CASES = Cases[MigBench]()
# For Blackwell: profiles with all media engines, and with none.
ALL_MEDIA_CASES = Cases[MigBench]()


@CASES.case("8.8")
def an_instance_with_compute_instances_is_in_use(bench: MigBench) -> None:
    with bench.mig_mode():
        made = bench.make(bench.small, None, bench.compute)
        assert [each.profile_id for each in made.compute] == [bench.compute]
        assert bench.nvml.destroy_instance(bench.pf, made.id) == "IN_USE"
        assert bench.instances() == (made,)
        bench.destroy(made)
        assert bench.instances() == ()
        assert bench.nvml.destroy_instance(bench.pf, made.id) == "NOT_FOUND"
        bench.destroy(made)


@CASES.case("8.21")
def compute_instances_share_the_slices_of_their_instance(bench: MigBench) -> None:
    with bench.mig_mode():
        with pytest.raises(HostRefused) as caught:
            bench.make(bench.small, None, bench.compute, bench.compute)
        assert caught.value.errno_name == "ENOSPC"
        assert bench.instances() == ()


@CASES.case("8.10")
def without_room_nothing_is_made_and_the_others_stay(bench: MigBench) -> None:
    with bench.mig_mode():
        made = [bench.make(bench.small)]
        while bench.profile(bench.small).remaining:
            made.append(bench.make(bench.small))
        for name in (bench.small, bench.large, bench.whole):
            with pytest.raises(HostRefused) as caught:
                bench.make(name)
            assert caught.value.errno_name == "ENOSPC"
        assert sorted(bench.instances(), key=_id) == sorted(made, key=_id)


@CASES.case("8.12")
def an_instance_lies_where_it_was_asked_for_or_nowhere(bench: MigBench) -> None:
    with bench.mig_mode():
        starts = bench.profile(bench.small).starts
        for start in reversed(starts):
            bench.make(bench.small, start)
        bench.empty()
        last = bench.make(bench.small, starts[-1])
        for name in (bench.large, bench.whole):
            places = bench.profile(name).starts
            with pytest.raises(HostRefused):
                bench.make(name, places[-1] + 1)
            with pytest.raises(HostRefused) as caught:
                bench.make(name, places[-1])
            assert caught.value.errno_name == "ENOSPC"
        assert bench.make(bench.small, starts[-1]) == last
        assert bench.instances() == (last,)


@CASES.case("8.11")
def a_card_does_not_fill_up_from_the_lowest_slot(bench: MigBench) -> None:
    made = bench.order(4)
    assert len(set(made)) == 4
    assert made != sorted(made)


@CARDS_CASES.case("8.11")
def cards_of_one_board_fill_up_in_different_orders(bench: MigBench) -> None:
    cards = [replace(bench, pf=pf) for pf in (bench.pf, *bench.cards)]
    assert len({tuple(card.order(4)) for card in cards}) > 1
    assert bench.order(4) == bench.order(4)


@GUIDE_CARD_CASES.case("8.11")
def a_card_fills_up_as_in_the_guide(bench: MigBench) -> None:
    assert bench.order(7) == GUIDE_ORDER
    with bench.mig_mode():
        for name in ("2g", "3g"):
            full = next(each.name for each in bench.mig().profiles if each.name.startswith(name))
            assert bench.make(full).start == 4
            bench.empty()


@GUIDE_CARD_CASES.case("8.10", "8.11")
def small_instances_first_leave_no_room_for_a_large_one(bench: MigBench) -> None:
    with bench.mig_mode():
        middle = next(each.name for each in bench.mig().profiles if each.name.startswith("2g"))
        made = {bench.make(name).id for name in (bench.small, bench.small, middle)}
        with pytest.raises(HostRefused) as caught:
            bench.make(bench.large)
        assert caught.value.errno_name == "ENOSPC"
        assert {each.id for each in bench.instances()} == made
        bench.empty()
        for name in (bench.large, bench.small, middle, bench.small):
            bench.make(name)


@CASES.case("8.13")
def media_extensions_go_to_one_instance(bench: MigBench) -> None:
    with bench.mig_mode():
        bench.make(bench.media)
        assert bench.profile(bench.media).remaining == 0
        with pytest.raises(HostRefused) as caught:
            bench.make(bench.media)
        assert caught.value.errno_name == "ENOSPC"
        bench.make(bench.small)


@ALL_MEDIA_CASES.case("8.13")
def all_media_engines_leave_none_to_others(bench: MigBench) -> None:
    with bench.mig_mode():
        plain = bench.media.removesuffix("+me")
        bench.make(f"{plain}+me.all")
        for name in (plain, bench.media, bench.small):
            with pytest.raises(HostRefused):
                bench.make(name)
        bench.make(f"{plain}-me")


def _id(instance: GpuInstance) -> int:
    return instance.id
