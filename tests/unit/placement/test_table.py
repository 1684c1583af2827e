"""The table of GPU states against the rules it is made from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Reason
from vgpumgr.model.supply import GpuSupply, HostSupply, Offer, SlotStart, Usage
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement.fit.gpu_rules import first_fit, judge, room
from vgpumgr.placement.fit.policy_keys import KEYS, packed_key
from vgpumgr.placement.resources.demand import Demand, demand_of
from vgpumgr.placement.resources.gpu_state import BoardBook, GpuOccupancy
from vgpumgr.placement.resources.host_state import HostState
from vgpumgr.placement.tables import gpu_states
from vgpumgr.placement.tables.gpu_states import PACKED, StateTable
from vgpumgr.placement.tables.host_table import HostRows
from vgpumgr.placement.tables.request_types import parts_of

DEPTH = PlacementPolicy.DEPTH_FIRST
UNITS = 12


def share(units: int, most: int = 99) -> Offer:
    return Offer(
        profile=f"share-{units}",
        framework=Framework.MDEV,
        type_id=f"share-{units}",
        units=units,
        max_instances=most,
        memory_mib=units * 1024,
    )


WHOLE = Offer(
    profile="passthrough", framework=Framework.PASSTHROUGH, type_id="", units=UNITS,
    max_instances=1, memory_mib=UNITS * 1024,
)  # fmt: skip
SHARES = (share(2), share(3), share(5), share(12))


def gpu(**changes: object) -> GpuSupply:
    supply = GpuSupply(
        id="g", device="g", model="L40S", numa_node=None, units=UNITS,
        free_slots=tuple(range(UNITS)), offers=(*SHARES, WHOLE),
    )  # fmt: skip
    return replace(supply, **changes)  # type: ignore[arg-type]  # the names are GpuSupply's own


def wants(*parts: GpuRequest) -> Demand:
    return demand_of(VmSpec(name="vm", vcpus=1, memory_mib=1, gpus=parts), DEPTH, founding=False)


DEMANDS = [
    *(wants(GpuRequest(profile=offer.profile)) for offer in SHARES),
    wants(GpuRequest(profile="passthrough")),
    wants(GpuRequest(memory_mib=4096)),
    wants(GpuRequest(memory_mib=9000, framework="passthrough")),
    wants(GpuRequest(profile="share-3", models=("A40", "l40s"))),
    wants(GpuRequest(profile="share-3", model="A40")),
    wants(GpuRequest(profile="share-2", count=20)),
]


def placed(units: int, *at: int) -> Offer:
    starts = (SlotStart(at=one, slots=tuple(range(one, one + units))) for one in at)
    return replace(share(units), starts=tuple(starts))


MIXED = gpu(offers=(placed(2, 0, 4, 6, 10), placed(3, 0, 9), placed(5, 0, 7), placed(12, 0)))


def every_state(supply: GpuSupply) -> list[GpuOccupancy]:
    """All that can come to lie on the GPU by taking shares and giving them back."""
    found: dict[tuple[int, bool], GpuOccupancy] = {}
    todo = [GpuOccupancy("h", supply, BoardBook())]
    while todo:
        state = todo.pop()
        key = state.grid.free, state.whole
        if key not in found:
            found[key] = state
            for offer in supply.offers:
                spots = judge(state, offer, 1)
                for spot in () if isinstance(spots, Reason) else spots:
                    after = state.copy()
                    after.take(offer, spot)
                    todo.append(after)
    return list(found.values())


SUPPLIES = {
    "ladder": gpu(),
    "not whole": gpu(passthrough_blocked="VFs are on"),
    "same-size": gpu(same_size=True),
    "few of a kind": gpu(offers=(share(2, most=2), share(3), WHOLE)),
    "driver counts": gpu(available={"share-2": 1}),
    "one size class each": gpu(offers=(replace(share(2), size_class=2), share(3), WHOLE)),
    "used": gpu(
        usages=(Usage(profile="share-3", framework=Framework.MDEV, units=3),),
        free_slots=tuple(range(3, UNITS)),
    ),
    "slots gone": gpu(free_slots=tuple(range(4, UNITS))),
    "mixed-size": MIXED,
    "blocked": gpu(blocked="quarantined"),
}


@pytest.mark.parametrize("name", SUPPLIES)
def test_a_row_says_what_the_rules_say(name: str) -> None:
    every = every_state(SUPPLIES[name])
    table = StateTable(BoardBook())
    columns = [(d, table.column(parts_of(d)[0])) for d in DEMANDS]
    rows = [table.row_of(state) for state in every]
    table.open_rows(rows)
    for state, row in zip(every, rows, strict=True):
        for demand, column in columns:
            kind = demand.kinds[0]
            blocked = bool(state.supply.blocked)
            assert table.room[row, column] == (0 if blocked else room(state, kind, demand))
            found = None if blocked else first_fit(state, kind, demand)
            if found is None:
                continue
            for policy in PACKED:
                key = KEYS[policy].gpu(state, *found)
                assert table.keys_by(policy)[row, column] == packed_key(policy, key)
            after = state.copy()
            after.take(*found)
            assert table.after[row, column] == table.row_of(after)
            assert table.units[row] == state.free_units


def test_states_that_units_alone_tell_apart_take_the_closed_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = every_state(gpu())
    laddered = StateTable(BoardBook())
    assert laddered.row_of(every[0]) > 0 and laddered.rows == UNITS + 3
    monkeypatch.setattr(gpu_states, "counts_slots_only", lambda _gpu: False)
    one_by_one = StateTable(BoardBook())
    one_by_one.row_of(every[0])
    assert one_by_one.rows == 2


def test_placed_vgpus_that_keep_the_same_starts_free_leave_the_same_state() -> None:
    one, other, less = (GpuOccupancy("h", MIXED, BoardBook()) for _ in range(3))
    for state, taken in ((one, (0, 9)), (other, (10, 0)), (less, (4, 9))):
        for offer, at in zip(MIXED.offers[:2], taken, strict=True):
            spots = judge(state, offer, 1)
            assert not isinstance(spots, Reason)
            state.take(offer, next(spot for spot in spots if spot.at == at))
    table = StateTable(BoardBook())
    assert one.grid.free != other.grid.free
    assert table.row_of(one) == table.row_of(other) != table.row_of(less)


def test_a_row_knows_every_place_of_a_part() -> None:
    table, state = StateTable(BoardBook()), GpuOccupancy("h", MIXED, BoardBook())
    column = table.column(parts_of(wants(GpuRequest(profile="share-3")))[0])
    row = table.row_of(state)
    table.open_rows([row])
    offer = MIXED.offers[1]
    after = [state.copy() for _ in offer.starts]
    for each, spot in zip(after, state.spots(offer), strict=True):
        each.take(offer, spot)
    assert table.choices(row, column) == tuple(map(table.row_of, after))
    assert len(set(table.choices(row, column))) == 2


def test_a_column_that_comes_later_is_filled_for_the_rows_there_are() -> None:
    for supply in (gpu(), gpu(same_size=True)):
        early, late = StateTable(BoardBook()), StateTable(BoardBook())
        every = every_state(supply)
        for demand in DEMANDS:
            early.column(parts_of(demand)[0])
        rows = [(early.row_of(state), late.row_of(state)) for state in every]
        late.open_rows(row for _, row in rows)
        for demand in DEMANDS:
            late.column(parts_of(demand)[0])
        early.open_rows(row for row, _ in rows)
        late.open_rows(row for _, row in rows)
        count = len(DEMANDS)
        for one, other in rows:
            assert np.array_equal(early.room[one, :count], late.room[other, :count])
            for policy in PACKED:
                assert np.array_equal(
                    early.keys_by(policy)[one, :count], late.keys_by(policy)[other, :count]
                )


def test_gpus_that_share_their_parts_share_a_row_and_no_others_do() -> None:
    """Each row is the one that the GPU has when it is looked at by itself."""
    counts, other = {"share-3": 3}, {"share-3": 1}
    used = (Usage(profile="share-4", framework=Framework.MDEV, units=4, vm="v"),)
    free = tuple(range(UNITS - 4))
    changes: list[dict[str, object]] = [
        {}, {"available": counts}, {"available": counts}, {"available": other}, {"available": {}},
        {"usages": used, "free_slots": free}, {"usages": used, "free_slots": free},
        {"usages": used, "free_slots": free, "available": counts}, {"blocked": "so"},
        {"same_size": True}, {"passthrough_blocked": "so"},
    ]  # fmt: skip
    gpus = tuple(gpu(id=f"g{number}", **each) for number, each in enumerate(changes))
    supply = HostSupply(name="h", free_vcpus=1, free_memory_mib=1, numa=(), gpus=gpus)
    boards = BoardBook()
    table = StateTable(boards)
    rows = HostRows([HostState(supply, 0, boards)], table).rows[0].tolist()
    assert rows == [table.row_of_supply(each) for each in gpus]
    assert rows[1] == rows[2] != rows[3]
