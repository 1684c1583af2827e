"""Stand-ins for a part that fits nowhere: the nearest in size is suggested first."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.placement.test_place import WHOLE, gpu, host, offer
from vgpumgr.model.supply import Fleet, GpuSupply
from vgpumgr.model.vm import GpuRequest
from vgpumgr.placement.whatif_suggestions import nearest, others


def board(model: str, gib: int) -> GpuSupply:
    """A board with that much memory that makes 4 GiB vGPUs."""
    whole = replace(WHOLE, memory_mib=gib * 1024)
    return replace(gpu(model), model=model, offers=(offer(4), whole))


def suggested(*boards: GpuSupply) -> list[tuple[str | None, bool]]:
    fleet = Fleet(hosts=(host("h1", *boards),))
    part = GpuRequest(profile="T4-4Q", model="asked")
    return [(each.part.model, each.smaller) for each in others(part, fleet)]


def test_of_smaller_boards_the_largest_comes_first() -> None:
    found = suggested(board("asked", 48), board("a-quarter", 12), board("half", 24))
    assert found == [("half", True), ("a-quarter", True)]


def test_boards_as_large_come_first_and_of_these_the_nearest() -> None:
    """A little less counts as as large: boards of one size differ in what is left of it."""
    found = suggested(
        board("asked", 48),
        board("double", 96),
        board("a-little-less", 44),
        board("same", 48),
        board("half", 24),
    )
    assert found == [
        ("same", False),
        ("a-little-less", False),
        ("double", False),
        ("half", True),
    ]


def test_of_profiles_the_next_smaller_comes_first() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a")),))
    found = [each.part.profile for each in nearest(GpuRequest(profile="T4-8Q"), fleet)]
    assert found == ["T4-4Q", "T4-2Q", "T4-1Q"]
