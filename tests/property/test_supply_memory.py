"""Supplies that are remembered, through random histories: as if all were worked out anew."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.simworld import OLD, SimWorld, host
from vgpumgr.engine.inventory import gpu_supply
from vgpumgr.engine.inventory.host_supply import SupplyMemory, build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model import formats
from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.gpu import GpuRecord, GpuState, Mdev
from vgpumgr.model.host import ClaimFacts, HostFacts, HostRecord, UnknownPart
from vgpumgr.model.image import CopyState, ImageCopy, ImageRecord
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRecord
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import VmPlace, VmRecord, VmSpec, VmState
from vgpumgr.store.ledger.gpu_texts import dump_gpu, load_gpu

FLEET, OTHER = "ours", "theirs"
INSTANCES = (InstanceGoal(profile="3g.40gb", start=0),)


@cache
def kinds() -> dict[str, tuple[HostFacts, tuple[GpuRecord, ...]]]:
    """A host of each kind as a probe leaves it in the ledger."""
    hosts = (
        host("T4", "T4", versions=OLD, name="t4", hugepages_1gib=8),
        host("A40", "A40", versions=OLD, name="mdev-vfs"),
        host("A40", "A40", name="vfio-vfs"),
        host("A100-PCIE-80GB", name="mig"),
        host(*["H100-SXM5-80GB"] * 8, name="hgx", fabric="HGX-H100-8"),
        host("MI300X", name="plain"),
    )
    with tempfile.TemporaryDirectory() as folder:
        world = SimWorld(Path(folder), *hosts)
        world.engine.refresh()
        world.cut(GpuLayout(vfs=VFS_MAX), "mdev-vfs")
        world.cut(GpuLayout(vfs=VFS_MAX), "vfio-vfs")
        world.cut(GpuLayout(mig=True, vfs=VFS_MAX, instances=INSTANCES), "mig")
        world.engine.refresh()
        view = world.engine.view()
        world.close()
    found = {}
    for each in view.hosts:
        assert each.facts is not None
        found[each.name] = each.facts, tuple(g for g in view.gpus if g.host == each.name)
    return found


def first_view(kind: str) -> LedgerView:
    """Three hosts of a kind, with GPUs that share what they show."""
    facts, gpus = kinds()[kind]
    names = ("a", "b", "c")
    return LedgerView(
        fleet=FLEET,
        hosts=tuple(
            HostRecord(name=name, address=name, facts=replace(facts, host=name, claims=()))
            for name in names
        ),
        gpus=tuple(
            replace(
                gpu,
                id=f"{name}-{number}",
                host=name,
                facts=load_gpu(dump_gpu(gpu.facts), f"GPU-{name}-{number}", f"{number}"),
            )
            for name in names
            for number, gpu in enumerate(gpus)
        ),
        vms=(),
        allocations=(),
    )


def anew(view: LedgerView) -> Fleet:
    """The supply with nothing remembered and no GPU taken for another."""
    with (
        patch.object(gpu_supply, "_is_untouched", lambda *_: False),
        patch.object(gpu_supply, "shape_of", gpu_supply._shape),
    ):
        return build_fleet(view, memory=SupplyMemory())


@dataclass(frozen=True)
class Change:
    """One thing that happens at one place: a host, and one of its GPUs or functions."""

    what: str
    host: int
    gpu: int
    function: int
    number: int


def happened(view: LedgerView, change: Change) -> LedgerView:
    it = view.hosts[change.host]
    gpus = [gpu for gpu in view.gpus if gpu.host == it.name]
    gpu = gpus[change.gpu % len(gpus)]
    functions = [gpu.facts.device, *(vf.address for vf in gpu.facts.vfs)]
    function = functions[change.function % len(functions)]
    return CHANGES[change.what](view, it, gpu, function, change.number)


def _host(view: LedgerView, it: HostRecord, **values: Any) -> LedgerView:
    hosts = tuple(replace(it, **values) if each is it else each for each in view.hosts)
    return replace(view, hosts=hosts)


def _facts(view: LedgerView, it: HostRecord, **values: Any) -> LedgerView:
    assert it.facts is not None
    return _host(view, it, facts=replace(it.facts, **values))


def _gpu(view: LedgerView, it: GpuRecord, **values: Any) -> LedgerView:
    gpus = tuple(replace(it, **values) if each is it else each for each in view.gpus)
    return replace(view, gpus=gpus)


def _mdev(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    assert it.facts is not None
    made = Mdev(uuid=f"mdev-{n}", parent=at, type_id="nvidia-232")
    return _facts(view, it, mdevs=() if n > 6 else (*it.facts.mdevs, made))


def _claim(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    assert it.facts is not None
    unit = formats.pci_claim(at) if n % 3 else formats.mdev_claim(f"mdev-{n}")
    fleet = OTHER if n % 2 else FLEET
    made = ClaimFacts(unit=unit, fleet=fleet, epoch=1, allocation="a", generation=1, vm="v")
    return _facts(view, it, claims=() if n > 6 else (*it.facts.claims, made))


def _domain(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    assert it.facts is not None
    state = DomainState.RUNNING if n % 2 else DomainState.SHUTOFF
    made = DomainFacts(
        name=f"vm{n}", uuid=f"d{n}", state=state, persistent=True, autostart=False, vcpus=n + 1,
        memory_mib=512 * n, devices=(at,),
    )  # fmt: skip
    return _facts(view, it, domains=() if n > 6 else (*it.facts.domains, made))


_PARTS = ("mdevs", "nvml", "fabric", "domains", "devices", "claims x")


def _unknown(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    part = f"nvml {gpu.facts.device}" if n > 6 else _PARTS[n % len(_PARTS)]
    return _facts(view, it, unknown=() if n == 9 else (UnknownPart(part=part, why=f"why {n}"),))


def _machine(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    assert it.facts is not None
    old = replace(it.facts.versions, libvirt=("9.0.0", "11.3.0", "")[n % 3])
    return _facts(view, it, versions=old, iommu=n % 4 != 0, stopping=n == 8)


def _fabric(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    assert it.facts is not None
    if it.facts.fabric is None or n > 7:
        return _facts(view, it, fabric=None)
    chosen = n % len(it.facts.fabric.partitions)
    partitions = tuple(
        replace(each, active=number == chosen)
        for number, each in enumerate(it.facts.fabric.partitions)
    )
    return _facts(view, it, fabric=replace(it.facts.fabric, partitions=partitions))


def _shown(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    """The GPU shows something else; n alike GPUs elsewhere may follow by the same text."""
    facts = gpu.facts
    seen = (
        replace(facts, driver="vfio-pci"),
        replace(facts, health_detail="warm", health=type(facts.health).RESET_REQUIRED),
        replace(facts, name="NVIDIA GB200"),
        replace(facts, vfs=facts.vfs[:1]),
        replace(facts, numa_node=n % 2),
        replace(facts, boot_vga=True),
        replace(facts, iommu_group=None),
        replace(facts, type_units={}),
        replace(facts, mixed_size=True),
        replace(facts, module_id=None),
    )[n]
    return _gpu(view, gpu, facts=load_gpu(dump_gpu(seen), facts.uuid, facts.serial))


def _record(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    states = (GpuState.HEALTHY, GpuState.QUARANTINED, GpuState.MISSING)
    return _gpu(view, gpu, state=states[n % 3], state_why="so" if n % 2 else "", units=4 * n + 1)


def _layout(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    made = LayoutRecord(
        gpu=gpu.id, host=it.name, layout=f"l{n}", goal=GpuLayout(vfs=4), operation="o",
        settled=n % 2 == 0,
    )  # fmt: skip
    return replace(view, layouts=(*(each for each in view.layouts if each.gpu != gpu.id), made))


def _allocation(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    vf = next((vf.number for vf in gpu.facts.vfs if vf.address == at), None)
    made = Allocation(
        id=f"a{n}", vm_id=f"v{n}", vm=f"vm{n}", host=it.name, gpu=gpu.id, profile="T4-4Q",
        framework="mdev" if n % 2 else "passthrough", device=at if n % 3 else f"mdev-{n}",
        slots=(n % 8,), type_id="nvidia-232", parent=at, vf=vf,
        state=AllocationState.ACTIVE if n % 4 else AllocationState.RESERVED,
        generation=1, created_at=1.0,
    )  # fmt: skip
    return replace(view, allocations=() if n == 9 else (*view.allocations, made))


def _vm(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    spec = VmSpec(
        name=f"vm{n}", vcpus=n + 1, memory_mib=1024, gpus=(), labels={"of": str(n)},
        hugepage_kib=1048576 if n % 2 else None,
    )  # fmt: skip
    going = VmPlace(host=view.hosts[0].name, numa_node=0, cpus=(n,)) if n > 7 else None
    made = VmRecord(
        id=f"v{n}", spec=spec, host=it.name, state=VmState.SHELVED if n == 6 else VmState.ACTIVE,
        running=True, generation=1, numa_node=n % 2, cpus=(n, n + 1), moving_to=going,
    )  # fmt: skip
    return replace(view, vms=(*(each for each in view.vms if each.id != made.id), made))


def _setting(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    values: tuple[dict[str, Any], ...] = (
        {"cordoned": not it.cordoned}, {"cpu_overcommit": 1.0 + n}, {"last_error": "no answer"},
        {"last_error": ""}, {"labels": {"n": str(n)}}, {"reserved_memory_mib": 100 * n},
        {"settled_boot": "b0"}, {"probe_only": not it.probe_only}, {"facts": None},
        {"observed_at": float(n), "generation": n},
    )  # fmt: skip
    chosen = values[n]
    return view if chosen == {"facts": None} and it.name == "a" else _host(view, it, **chosen)


def _image(view: LedgerView, it: HostRecord, gpu: GpuRecord, at: str, n: int) -> LedgerView:
    copy = ImageCopy(id=f"c{n}", image=f"i{n}", host=it.name, pool="default", state=CopyState.THERE)
    made = ImageRecord(
        id=f"i{n}", name=f"image{n}", version="1", format="qcow2", virtual_bytes=1, file_bytes=1,
        sha256="0", source="s", created_at=1.0, copies=(copy,),
    )  # fmt: skip
    images = () if n == 9 else (*(each for each in view.images if each.id != made.id), made)
    return replace(view, images=images)


Happens = Callable[[LedgerView, HostRecord, GpuRecord, str, int], LedgerView]
CHANGES: dict[str, Happens] = {
    "mdev": _mdev,
    "claim": _claim,
    "domain": _domain,
    "unknown": _unknown,
    "machine": _machine,
    "fabric": _fabric,
    "shown": _shown,
    "record": _record,
    "layout": _layout,
    "allocation": _allocation,
    "vm": _vm,
    "setting": _setting,
    "image": _image,
}
changes = st.builds(
    Change,
    what=st.sampled_from(sorted(CHANGES)),
    host=st.integers(0, 2),
    gpu=st.integers(0, 7),
    function=st.integers(0, 4),
    number=st.integers(0, 9),
)


@pytest.mark.parametrize("kind", ["t4", "mdev-vfs", "vfio-vfs", "mig", "hgx", "plain"])
@settings(max_examples=60, deadline=None)
@given(history=st.lists(changes, min_size=1, max_size=8))
@example([Change("fabric", 0, 0, 0, 9), Change("fabric", 1, 0, 0, 0)])
def test_what_is_remembered_is_what_would_be_worked_out(kind: str, history: list[Change]) -> None:
    memory, view = SupplyMemory(), first_view(kind)
    for change in history:
        try:
            view = happened(view, change)
        except AssertionError:  # the host is not known any more
            continue
        expected = anew(view)
        assert build_fleet(view, memory=memory) == expected
        assert build_fleet(view) == expected


@settings(max_examples=100, deadline=None)
@given(change=changes)
def test_a_change_at_one_host_leaves_the_others_the_very_same(change: Change) -> None:
    memory, view = SupplyMemory(), first_view("vfio-vfs")
    before = build_fleet(view, memory=memory)
    after = build_fleet(happened(view, change), memory=memory)
    moving = change.what == "vm" and change.number > 7
    images = change.what == "image"
    for number, (one, other) in enumerate(zip(before.hosts, after.hosts, strict=True)):
        if number != change.host and not moving and not images:
            assert one is other
    assert build_fleet(view, memory=memory).hosts[1] is before.hosts[1]
