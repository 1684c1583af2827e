"""Which boards could make what no GPU of the fleet can."""

from __future__ import annotations

from dataclasses import replace

from tests.poolworld import DESKTOP, pool
from tests.unit.placement.test_place import gpu, host
from vgpumgr.engine.desktops.pool_size import unmakeable
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import GpuRequest


def asking(profile: str, **wishes: str) -> str:
    fleet = Fleet(hosts=(host("h1", gpu("g1")),))
    part = GpuRequest(profile=profile, **wishes)  # type: ignore[arg-type]
    return unmakeable(pool(desktop=replace(DESKTOP, gpus=(part,))), fleet)


def test_what_a_gpu_makes_is_fine() -> None:
    assert asking(gpu("g1").offers[0].profile) == ""


def test_what_none_makes_is_said_with_the_boards_that_could() -> None:
    assert asking("L40S-8Q") == "no GPU of the fleet provides L40S-8Q; L40S could"
    assert asking("MI300X-1of8").endswith("; MI300X could")
    assert asking("7g.80gb").startswith("no GPU of the fleet provides 7g.80gb; A100-PCIE-80GB,")
    assert asking("2Q", model="L40S") == "no GPU of the fleet provides 2Q"
