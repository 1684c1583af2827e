"""Random supplies, filled by the judge's own rules, and requests for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from tests.property.boards import MIG, NAMES, SHARED, THEMES, UNITS, WHOLE
from tests.property.judge import (
    after,
    complaint,
    instance_complaint,
    instance_of,
    usage_of,
    with_instance,
)
from vgpumgr.model.placement import Assignment
from vgpumgr.model.supply import (
    Fleet,
    FreeVf,
    GpuSupply,
    HostSupply,
    Offer,
    PartitionSupply,
    SlotStart,
)
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec

_rare = st.integers(0, 7).map(lambda n: n == 7)


# --- random supplies: empty ones, filled by the judge's own rules ---


@st.composite
def gpus(draw: st.DrawFn, name: str, theme: str) -> GpuSupply:
    offers = THEMES[theme]
    passthrough = not offers or draw(st.booleans())
    gpu = GpuSupply(
        id=name,
        device=f"dev-{name}",
        model=draw(st.sampled_from(["T4", "A40"])),
        numa_node=None,
        units=UNITS,
        free_slots=tuple(range(UNITS)),
        offers=(*offers, WHOLE),
        same_size=theme == "counted",
        mixed_size=theme == "mixed",
        gpu_slices=draw(st.sampled_from([7, 7, 4, 0])) if offers in (MIG, SHARED) else 0,
        free_vfs=_vfs(draw(st.sampled_from([16, 16, 5, 3, 0]))) if offers else (),
        passthrough_blocked="" if passthrough else "VFs are on",
        blocked="quarantined" if draw(_rare) else "",
    )
    for _ in range(draw(st.sampled_from([0, 1, 4])) if offers else 0):
        gpu = draw(_filled(gpu, offers))
    return gpu


def _vfs(count: int) -> tuple[FreeVf, ...]:
    return tuple(FreeVf(number=n, address=f"vf-{n}") for n in range(count))


@st.composite
def _filled(draw: st.DrawFn, gpu: GpuSupply, offers: Sequence[Offer]) -> GpuSupply:
    """The GPU with one more thing on it where that is allowed: a vGPU or an empty instance."""
    offer = draw(st.sampled_from(offers))
    start = draw(st.sampled_from(offer.starts)) if offer.starts else None
    slots = start.slots if start else gpu.free_slots[: offer.units]
    if not set(slots) <= set(gpu.free_slots) or len(slots) < offer.units:
        return gpu
    if offer.instance is None:
        part = part_of(gpu, offer, slots, start)
        return after(gpu, part) if complaint(gpu, part) in ("", "vf") and gpu.free_vfs else gpu
    assert start is not None
    made = instance_of(offer.instance, start)
    if instance_complaint(gpu, offer, start):
        return gpu
    made = replace(
        made, id=draw(st.integers(0, 99)) * 100 + start.at, blocked="held" if draw(_rare) else ""
    )
    return with_instance(gpu, made)


def part_of(
    gpu: GpuSupply, offer: Offer, slots: Sequence[int], start: SlotStart | None
) -> Assignment:
    return Assignment(
        gpu=gpu.id,
        device=gpu.device,
        offer=offer,
        slots=tuple(slots),
        start=start.at if start else None,
        vf=gpu.free_vfs[0] if gpu.free_vfs else None,
    )


@st.composite
def hosts(draw: st.DrawFn, name: str, theme: str) -> HostSupply:
    if theme == "whole":
        return draw(nvswitch_hosts(name))
    count = draw(st.integers(1, 3))
    themes = [theme if draw(st.booleans()) else draw(theme_of) for _ in range(count)]
    return host_of(name, tuple(draw(gpus(f"{name}-g{n}", t)) for n, t in enumerate(themes)))


@st.composite
def nvswitch_hosts(draw: st.DrawFn, name: str) -> HostSupply:
    made = [draw(gpus(f"{name}-g{n}", "whole")) for n in range(4)]
    for number in draw(st.sets(st.integers(0, 3), max_size=2)):
        usage = usage_of(WHOLE, "old", None)
        made[number] = replace(made[number], usages=(usage,), free_slots=())
    ids = [gpu.id for gpu in made]
    sets = [ids, ids[:2], ids[2:], *([each] for each in ids[:3])]
    shuffled = draw(st.permutations(sets))
    return replace(
        host_of(name, tuple(made)),
        partitions=tuple(PartitionSupply(id=n, gpus=frozenset(s)) for n, s in enumerate(shuffled)),
    )


def host_of(name: str, made: tuple[GpuSupply, ...]) -> HostSupply:
    return HostSupply(name=name, free_vcpus=99, free_memory_mib=99 * 1024, numa=(), gpus=made)


@st.composite
def parts(draw: st.DrawFn, theme: str = "") -> GpuRequest:
    """Mostly what GPUs of the theme can make."""
    framework = draw(st.sampled_from([None, None, None, "vfio-vf", "passthrough"]))
    framework = "mdev" if draw(_rare) else framework
    count = draw(st.sampled_from([1, 1, 2]))
    if draw(st.integers(0, 3)) == 3:
        memory_mib = draw(st.sampled_from([1, 2, 3, 4, 8, 16, 17])) * 1024
        return GpuRequest(memory_mib=memory_mib, count=count, framework=framework)
    mine = [offer.profile for offer in THEMES.get(theme, ())] or ["passthrough"]
    names = NAMES if not theme or draw(_rare) else mine
    framework = framework if draw(_rare) else None
    return GpuRequest(profile=draw(st.sampled_from(names)), count=count, framework=framework)


@st.composite
def requests(draw: st.DrawFn, theme: str) -> VmSpec:
    wanted = draw(st.lists(parts(theme), min_size=1, max_size=2))
    policy = draw(st.sampled_from(PlacementPolicy))
    return VmSpec(
        name="vm", vcpus=1, memory_mib=64, gpus=tuple(wanted), numa=NumaPolicy.NONE, policy=policy
    )


theme_of = st.sampled_from(["counted", "mixed", "mig", "shared"])


@st.composite
def scenes(draw: st.DrawFn, most: int = 1) -> tuple[Fleet, list[VmSpec]]:
    """A fleet, and requests that often fit it."""
    theme = draw(st.sampled_from([*THEMES, "mig", "shared"]))
    made = tuple(draw(hosts(f"h{n}", theme)) for n in range(draw(st.integers(1, 2))))
    return Fleet(hosts=made), draw(st.lists(requests(theme), min_size=1, max_size=most))
