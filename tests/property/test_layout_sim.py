"""Layouts and frameworks through the real helper over the simulated driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr import catalog, layout
from vgpumgr import gpu as frameworks
from vgpumgr.layout.instance_profiles import profiles
from vgpumgr.model.allocation import Allocation, InstancePart
from vgpumgr.model.gpu import Framework, GpuFacts
from vgpumgr.model.host import HostRecord, Versions
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, Scheduler
from vgpumgr.model.operation import InState
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.model.supply import Offer
from vgpumgr.sim.in_process import InProcessHosts

VENDOR_VFIO = Versions(
    kernel="6.8.0-60-generic", libvirt="10.3.0", qemu="9.0.0", driver="580.105.06"
)
MDEV = replace(VENDOR_VFIO, kernel="5.14.0-427.el9.x86_64")
NVIDIA = ("A100-PCIE-80GB", "H100-PCIE-80GB", "A30", "RTX-PRO-6000-BSE", "A40", "L40S")
MIXED = GpuLayout(vfs=VFS_MAX, mixed_size=True)
MIG = GpuLayout(mig=True, vfs=VFS_MAX)


class OneGpu:
    """A simulated host with one GPU."""

    def __init__(self, board: str, versions: Versions = VENDOR_VFIO, vfs: int = 0) -> None:
        boards = (SimBoard(board=board, vfs=vfs),)
        fleet = SimFleet(name="f", hosts=(SimHost(name="h1", boards=boards, versions=versions),))
        self._hosts = InProcessHosts(fleet, identity=lambda: ("fleet-1", 1))
        self.host: Host = self._hosts.open(HostRecord(name="h1", address="sim://h1"))

    def facts(self) -> GpuFacts:
        probe = self.host.probe()
        assert probe.unknown == ()
        [gpu] = probe.gpus
        return frameworks.with_budget(gpu, None, empty=True)

    def apply(self, goal: GpuLayout, cut: int | None = None) -> None:
        """As the engine does it: look, act, look."""
        facts = self.facts()
        for change in layout.plan(facts, goal, (), ())[1][:cut]:
            if layout.look(self.host.helper, facts.device, change) != InState():
                layout.act(self.host.helper, facts.device, change)
            assert layout.look(self.host.helper, facts.device, change) == InState()

    def close(self) -> None:
        self._hosts.close()


@pytest.fixture
def one_gpu(request: pytest.FixtureRequest) -> Iterator[OneGpu]:
    made = OneGpu(*request.param)
    yield made
    made.close()


@st.composite
def goals(draw: st.DrawFn, board: str) -> GpuLayout:
    """Any goal, sense or no sense."""
    known = catalog.board(board)
    assert known is not None
    names = sorted(each.name for each in grid.profiles) if (grid := catalog.mig(known)) else []
    some = st.lists(st.builds(InstanceGoal, profile=st.sampled_from(names)), max_size=4)
    return GpuLayout(
        mig=draw(st.sampled_from([None, False, True])),
        vfs=draw(st.sampled_from([None, 0, VFS_MAX])),
        mixed_size=draw(st.sampled_from([None, False, True])),
        scheduler=draw(st.sampled_from([None, *Scheduler])),
        power_limit=draw(st.sampled_from([None, 0, 150, 5000])),
        locked_clocks=draw(st.sampled_from([None, (), (300, 900)])),
        instances=tuple(draw(some)) if names and draw(st.booleans()) else None,
    )


@pytest.mark.parametrize("board", NVIDIA)
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_goal_after_goal_is_reached_or_refused_by_the_plan_never_by_the_driver(
    board: str, data: st.DataObject
) -> None:
    gpu = OneGpu(board)
    for _ in range(4):
        goal, cut = data.draw(goals(board)), data.draw(st.integers(0, 6))
        try:
            gpu.apply(goal, cut)
            gpu.apply(goal)
        except layout.LayoutRefused as refused:
            assert refused.next
            continue
        assert layout.differences(gpu.facts(), goal, ()) == ()
        assert layout.differences(gpu.facts(), layout.export(gpu.facts()), ()) == ()
    gpu.close()


@pytest.mark.parametrize(
    ("one_gpu", "goal", "made"),
    [
        (("A100-PCIE-80GB",), MIG, {"1g.10gb", "3g.40gb", "7g.80gb", "1g.10gb+me"}),
        (("A100-PCIE-80GB", MDEV), MIG, {"1g.10gb", "3g.40gb", "7g.80gb"}),
        (("A100-PCIE-80GB",), MIXED, {"A100D-16C", "A100D-4C", "A100D-80C"}),
        (("H100-PCIE-80GB",), MIG, {"1g.10gb", "1g.20gb", "4g.40gb"}),
        (("RTX-PRO-6000-BSE",), MIG, {f"RTX Pro 6000 Blackwell DC-{n}" for n in ("1-2Q", "2-48Q")}),
        (("L40S",), GpuLayout(vfs=VFS_MAX), {"L40S-1Q", "L40S-8Q", "L40S-48Q"}),
        (("A40", MDEV), GpuLayout(vfs=VFS_MAX), {"A40-1Q", "A40-8Q"}),
        (("A40",), MIXED, {"A40-1Q", "A40-8Q"}),
        (("T4", MDEV), GpuLayout(), {"T4-4Q"}),
        (("FLEX-170",), GpuLayout(vfs=5), {"FLEX-170-1of5"}),
        (("MI300X", VENDOR_VFIO, 8), GpuLayout(), {"MI300X-1of8"}),
    ],
    indirect=["one_gpu"],
    ids=lambda value: "-".join(map(str, value[:1])) if isinstance(value, tuple) else None,
)
def test_what_is_offered_can_be_made_and_taken_back(
    one_gpu: OneGpu, goal: GpuLayout, made: set[str]
) -> None:
    one_gpu.apply(goal)
    before = one_gpu.facts()
    offers = {each.profile: each for each in frameworks.offers(before)}
    assert made <= offers.keys()
    for profile in sorted(made):
        allocation = allocate(offers[profile], before)
        framework = frameworks.framework(allocation.framework)
        framework.realise(one_gpu.host.helper, allocation)
        framework.realise(one_gpu.host.helper, allocation)
        assert framework.look(one_gpu.host.helper, allocation) == InState()
        assert framework.holds(one_gpu.host.helper, allocation)
        framework.release(one_gpu.host.helper, allocation)
        assert not framework.holds(one_gpu.host.helper, allocation)
    assert layout.export(one_gpu.facts()) == layout.export(before)


@pytest.mark.parametrize("one_gpu", [("A40",), ("FLEX-170",)], indirect=True)
def test_a_whole_gpu_goes_and_comes_back(one_gpu: OneGpu) -> None:
    before = one_gpu.facts()
    [offer] = frameworks.offers(before)
    allocation = replace(allocate(offer, before), companions=frameworks.companions(before)[0])
    whole = frameworks.framework(Framework.PASSTHROUGH)
    whole.realise(one_gpu.host.helper, allocation)
    assert whole.look(one_gpu.host.helper, allocation) == InState()
    whole.release(one_gpu.host.helper, allocation)
    assert one_gpu.facts().driver == before.driver


def allocate(offer: Offer, gpu: GpuFacts) -> Allocation:
    """The last place of an offer on the first VF."""
    function = gpu.vfs[0].address if offer.needs_vf else gpu.device
    is_mdev = offer.framework is Framework.MDEV
    at = offer.starts[-1].at if offer.starts else 0
    part = offer.instance and InstancePart(
        gpu=gpu.device,
        profile=offer.instance.profile,
        profile_id=offer.instance.profile_id,
        start=at,
        size=offer.instance.size,
    )
    return Allocation(
        id="22222222-2222-2222-2222-222222222222",
        vm_id="vm-1",
        vm="web",
        host="h1",
        gpu="gpu-1",
        profile=offer.profile,
        framework=offer.framework,
        device="11111111-1111-1111-1111-111111111111" if is_mdev else function,
        parent=function if is_mdev else "",
        slots=tuple(range(offer.units)),
        type_id=offer.type_id,
        instance=part,
        placement_id=at if offer.starts and part is None else None,
        frame_rate_limiter=False if is_mdev else None,
    )


def test_profiles_told_by_the_driver_are_those_of_the_catalogue() -> None:
    gpu = OneGpu("A100-PCIE-80GB")
    before = profiles(gpu.facts())
    gpu.apply(GpuLayout(mig=True))
    assert gpu.facts().mig is not None
    assert gpu.facts().mig.profiles  # type: ignore[union-attr]
    assert profiles(gpu.facts()) == before
    gpu.close()
