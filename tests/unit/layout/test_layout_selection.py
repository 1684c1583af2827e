"""Which GPU gets which goal, and a GPU's partitioning written down as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gpu.values import gpu, instance, mi300x, vendor_vfs
from vgpumgr import layout
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import ComputeInstance, GpuFacts, GpuRecord, MigFacts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRule, LayoutSpec, Scheduler

MIG, VFS, NONE = GpuLayout(mig=True), GpuLayout(vfs=VFS_MAX), GpuLayout(vfs=0)
HOST = HostRecord(name="h1", address="sim://h1", labels={"rack": "4", "site": "lyon"})


def record(number: int, model: str, device: str) -> GpuRecord:
    facts = GpuFacts(device=device, path="/x", model=model)
    return GpuRecord(id=f"gpu-{number}", host="h1", facts=facts, units=1)


GPUS = (
    record(1, "A100-PCIE-80GB", "0000:41:00.0"),
    record(2, "A100-PCIE-80GB", "0000:81:00.0"),
    record(3, "L40S", "0000:c1:00.0"),
    record(4, "mtty", "mtty"),
)


def test_the_first_rule_that_matches_wins() -> None:
    spec = LayoutSpec(
        name="lab",
        hosts=("h1",),
        rules=(
            LayoutRule(layout=NONE, devices=("0000:81:00.0",)),
            LayoutRule(layout=MIG, models=("a100-pcie-80gb",)),
            LayoutRule(layout=VFS),
        ),
    )
    assert layout.goals(spec, HOST, GPUS) == {"gpu-1": MIG, "gpu-2": NONE, "gpu-3": VFS}


def test_a_gpu_without_a_rule_is_left_alone() -> None:
    rules = (LayoutRule(layout=VFS, models=("L40S",)),)
    spec = LayoutSpec(name="lab", hosts=("h1",), rules=rules)
    assert layout.goals(spec, HOST, GPUS) == {"gpu-3": VFS}


@pytest.mark.parametrize(
    ("hosts", "labels", "applies"),
    [
        (("h1",), {}, True),
        (("h2",), {}, False),
        ((), {"rack": "4"}, True),
        ((), {"rack": "4", "site": "nice"}, False),
        ((), {}, False),
    ],
)
def test_a_layout_is_for_named_or_labelled_hosts(hosts, labels, applies: bool) -> None:
    rules = (LayoutRule(layout=VFS),)
    spec = LayoutSpec(name="lab", hosts=hosts, host_labels=labels, rules=rules)
    assert bool(layout.goals(spec, HOST, GPUS)) is applies


def test_a_device_the_host_does_not_have_is_an_error() -> None:
    rules = (LayoutRule(layout=VFS, devices=("0000:99:00.0",)),)
    spec = LayoutSpec(name="lab", hosts=("h1",), rules=rules)
    with pytest.raises(NotFound, match=r"names 0000:99:00\.0") as caught:
        layout.goals(spec, HOST, GPUS)
    assert "0000:41:00.0" in caught.value.why


def test_a_gpu_is_exported_as_a_goal_that_it_meets() -> None:
    inside = (ComputeInstance(id=0, profile_id=0), ComputeInstance(id=1, profile_id=1))
    facts = gpu(
        "A100-PCIE-80GB",
        vfs=vendor_vfs("A100-PCIE-80GB", 32),
        scheduler="equal-share",
        mixed_size=None,
        mig=MigFacts(
            enabled=True,
            pending=True,
            instances=(replace(instance("3g.40gb", 9, 4, 4), compute=inside),),
        ),
    )
    found = layout.export(facts)
    assert found == GpuLayout(
        mig=True,
        vfs=VFS_MAX,
        instances=(InstanceGoal(profile="3g.40gb", start=4, compute=("1c.3g.40gb", "2c.3g.40gb")),),
        scheduler=Scheduler.EQUAL_SHARE,
    )
    assert layout.differences(facts, found, ()) == ()


def test_parts_a_gpu_has_not_are_not_exported() -> None:
    assert layout.export(gpu("T4", sriov_total=0, mixed_size=None)) == GpuLayout()
    assert layout.export(mi300x(8)) == GpuLayout(vfs=8)
    assert layout.export(gpu("A40")) == GpuLayout(vfs=0, mixed_size=False)
