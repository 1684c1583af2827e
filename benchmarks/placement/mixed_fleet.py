"""Speed of placement decisions, on a fleet of T4s and on a mixed one side by side; prints JSON.

The mixed fleet is made from the catalogue: T4 (mdev on the PF), A40 (a vGPU per VF, 32 VFs), L40S
in mixed-size mode, A100 with MIG, and HGX H100 hosts with NVSwitch partitions. ``place_*``:
seconds to decide 1,000 VMs in one call. ``headroom_*``: seconds to count what still fits for
every profile asked for, on the empty fleet and on one that holds those VMs. Best of ``--repeat``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr import catalog
from vgpumgr.catalog import Board, VgpuType
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework
from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.supply import (
    Fleet,
    FreeVf,
    GpuSupply,
    HostSupply,
    InstanceOffer,
    InstanceSupply,
    NumaSupply,
    Offer,
    PartitionSupply,
    SlotStart,
    Usage,
)
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.model.vm_devices import NicSpec
from vgpumgr.placement import headroom, place

BREADTH, DEPTH = PlacementPolicy.BREADTH_FIRST, PlacementPolicy.DEPTH_FIRST
T4_MIX = ("T4-1Q", "T4-2Q", "T4-4Q")
MIX = (
    *("T4-2Q", "T4-4Q", "A40-4Q", "A40-8Q", "L40S-6Q", "L40S-12Q", "L40S-24Q"),
    *("1g.10gb", "2g.20gb", "3g.40gb", PASSTHROUGH_PROFILE, ""),
)


# --- GPUs, as the supply would describe them ---


def t4() -> GpuSupply:
    board = _board("T4")
    offers = [_offer(board, each, Framework.MDEV) for each in board.types]
    gpu = _gpu(board, (*offers, _whole(board)))
    counts = {offer.type_id: offer.max_instances for offer in offers}
    return replace(gpu, same_size=True, available=counts)


def a40() -> GpuSupply:
    board = _board("A40")
    offers = (_offer(board, each, Framework.VFIO_VF) for each in board.types)
    return replace(_gpu(board, tuple(offers)), same_size=True, free_vfs=_vfs(32))


def l40s() -> GpuSupply:
    board = _board("L40S")
    offers = (_in_mixed_size(board, each) for each in board.types)
    return replace(_gpu(board, tuple(offers)), mixed_size=True, free_vfs=_vfs(32))


def a100() -> GpuSupply:
    board = _board("A100-SXM4-80GB")
    mig = catalog.mig(board)
    assert mig is not None
    offers = tuple(
        _in_instance(board, each)
        for profile in mig.profiles
        for each in catalog.mig_types(board, profile.name)[:1]
    )
    return replace(_gpu(board, offers), gpu_slices=mig.gpu_slices, free_vfs=_vfs(16))


def h100() -> GpuSupply:
    board = _board("H100-SXM5-80GB")
    return _gpu(board, (_whole(board),))


def _board(key: str) -> Board:
    board = catalog.board(key)
    assert board is not None
    return board


def _gpu(board: Board, offers: tuple[Offer, ...]) -> GpuSupply:
    units = catalog.slots(board)
    return GpuSupply(
        id="", device="", model=board.key, numa_node=None, units=units,
        free_slots=tuple(range(units)), offers=offers,
    )  # fmt: skip


def _offer(board: Board, each: VgpuType, framework: Framework) -> Offer:
    return Offer(
        profile=each.profile,
        framework=framework,
        type_id=f"nvidia-{each.id}",
        units=catalog.allocation_units(board, each),
        max_instances=each.max_gpu,
        memory_mib=each.fb_mib,
        size_class=each.fb_mib,
        series=each.series,
        needs_vf=framework is Framework.VFIO_VF,
    )


def _in_mixed_size(board: Board, each: VgpuType) -> Offer:
    size = catalog.placement_size(board, each)
    starts = tuple(
        SlotStart(at=at, slots=catalog.placement_slots(board, at, size))
        for at in catalog.mixed_ids(board, each)
    )
    offer = _offer(board, each, Framework.VFIO_VF)
    return replace(offer, size_class=0, starts=starts, max_instances=len(starts))


def _in_instance(board: Board, each: VgpuType) -> Offer:
    made = catalog.gi_profile(board, each.mig)
    assert made is not None
    starts = (
        SlotStart(at=at, slots=catalog.slice_slots(board, at, made.size)) for at in made.starts
    )
    return replace(
        _offer(board, each, Framework.VFIO_VF),
        profile=made.name,
        names=(each.profile,),
        size_class=0,
        starts=tuple(starts),
        instance=InstanceOffer(
            profile=made.name, profile_id=made.id, size=made.size, gpu_slices=made.gpu_slices,
            media=made.media, per_instance=each.max_per_gi,
        ),
    )  # fmt: skip


def _whole(board: Board) -> Offer:
    return Offer(
        profile=PASSTHROUGH_PROFILE, framework=Framework.PASSTHROUGH, type_id="",
        units=catalog.slots(board), max_instances=1, memory_mib=board.memory_gib * 1024,
    )  # fmt: skip


def _vfs(count: int) -> tuple[FreeVf, ...]:
    return tuple(FreeVf(number=n, address=f"0000:41:{4 + n:02x}.0") for n in range(count))


# --- fleets and requests ---


def fleet(hosts: int, gpus: int, boards: Sequence[GpuSupply]) -> Fleet:
    """Hosts of ``gpus`` GPUs; each host has one board, in turn."""
    made = [_host(f"host-{n:03}", gpus, boards[n % len(boards)]) for n in range(hosts)]
    return Fleet(hosts=tuple(made))


def _host(name: str, count: int, board: GpuSupply) -> HostSupply:
    gpus = tuple(
        replace(
            board, id=f"{name}/{number}", device=f"0000:{0x41 + number:02x}:00.0",
            numa_node=number % 2, module_id=number + 1,
        )
        for number in range(count)
    )  # fmt: skip
    nodes = (
        NumaSupply(id=n, free_cpus=tuple(range(n * 32, n * 32 + 32)), free_memory_mib=256 * 1024)
        for n in (0, 1)
    )
    return HostSupply(
        name=name,
        free_vcpus=256,
        free_memory_mib=512 * 1024,
        numa=tuple(nodes),
        gpus=gpus,
        networks=("default",),
        bridges=("br0",),
        pools={"default": 1 << 40},
        partitions=_partitions(board.model, [gpu.id for gpu in gpus]),
    )


def _partitions(model: str, ids: Sequence[str]) -> tuple[PartitionSupply, ...]:
    known = catalog.fabric(_board(model).fabric)
    return tuple(
        PartitionSupply(id=each.id, gpus=frozenset(ids[number - 1] for number in each.gpus))
        for each in (known.partitions if known else ())
        if max(each.gpus) <= len(ids)
    )


def vm(number: int, profile: str) -> VmSpec:
    """One with a part of that profile; by size, any of 5 GiB, where ``profile`` is empty."""
    part = GpuRequest(profile=profile) if profile else GpuRequest(memory_mib=5 * 1024)
    return VmSpec(
        name=f"vm-{number:04}",
        vcpus=4,
        memory_mib=8192,
        gpus=(part,),
        nics=(NicSpec(bridge="br0"),),
        labels={"number": str(number)},
    )


def batch(count: int, profiles: Sequence[str]) -> list[VmSpec]:
    return [vm(n, profiles[n % len(profiles)]) for n in range(count)]


def loaded(before: Fleet, decisions: tuple[Decision, ...]) -> Fleet:
    """The fleet as the next look would see it."""
    taken: dict[str, list[_Part]] = {}
    for decision in decisions:
        if isinstance(decision, Placed):
            for part in decision.assignments:
                offer, made = part.offer, part.offer.instance
                usage = Usage(
                    profile=offer.profile, framework=offer.framework, units=len(part.slots),
                    size_class=offer.size_class, vm=decision.request.name, start=part.start,
                )  # fmt: skip
                taken.setdefault(part.gpu, []).append(_Part(usage, part.slots, made))
    return Fleet(
        hosts=tuple(
            replace(host, gpus=tuple(_used(gpu, taken.get(gpu.id, [])) for gpu in host.gpus))
            for host in before.hosts
        )
    )


@dataclass(frozen=True)
class _Part:
    usage: Usage
    slots: tuple[int, ...]
    made: InstanceOffer | None


def _used(gpu: GpuSupply, parts: Sequence[_Part]) -> GpuSupply:
    slots = {slot for part in parts for slot in part.slots}
    return replace(
        gpu,
        free_slots=tuple(slot for slot in gpu.free_slots if slot not in slots),
        usages=tuple(part.usage for part in parts),
        instances=tuple(_instance(n, part, part.made) for n, part in enumerate(parts) if part.made),
        free_vfs=gpu.free_vfs[len(parts) :],
        available={},
    )


def _instance(number: int, part: _Part, made: InstanceOffer) -> InstanceSupply:
    return InstanceSupply(
        profile=made.profile, profile_id=made.profile_id, start=part.usage.start or 0,
        size=made.size, gpu_slices=made.gpu_slices, slots=part.slots, free=(), id=number + 1,
        media=made.media, vgpus=1,
    )  # fmt: skip


# --- measurements ---


def best(repeat: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return round(min(times), 4)


def measure(empty: Fleet, profiles: Sequence[str], vms: int, repeat: int) -> dict[str, float]:
    alike, mixed = batch(vms, profiles[-2:-1] or profiles), batch(vms, profiles)
    full = loaded(empty, place(empty, mixed, DEPTH))
    asked = [vm(0, profile) for profile in profiles]
    return {
        "gpus": sum(len(host.gpus) for host in empty.hosts),
        "profiles": len(profiles),
        "placed": sum(isinstance(d, Placed) for d in place(empty, mixed, BREADTH)),
        "place_alike_s": best(repeat, lambda: place(empty, alike, BREADTH)),
        "place_breadth_first_s": best(repeat, lambda: place(empty, mixed, BREADTH)),
        "place_depth_first_s": best(repeat, lambda: place(empty, mixed, DEPTH)),
        "place_four_times_the_vms_s": best(repeat, lambda: place(empty, mixed * 4, DEPTH)),
        "headroom_empty_s": best(repeat, lambda: [headroom(empty, each) for each in asked]),
        "headroom_loaded_s": best(repeat, lambda: [headroom(full, each) for each in asked]),
    }


def side_by_side(t4s: Mapping[str, float], mixed: Mapping[str, float]) -> dict[str, object]:
    """Every figure of both fleets, and how many times longer the mixed one takes."""
    return {
        key: {"t4": t4s[key], "mixed": mixed[key]}
        | ({"ratio": round(mixed[key] / t4s[key], 2)} if key.endswith("_s") else {})
        for key in t4s
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--vms", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    t4s = fleet(args.hosts, args.gpus, [t4()])
    mixed = fleet(args.hosts, args.gpus, [t4(), a40(), l40s(), a100(), h100()])
    report = {
        "hosts": args.hosts,
        "vms": args.vms,
        **side_by_side(
            measure(t4s, T4_MIX, args.vms, args.repeat),
            measure(mixed, MIX, args.vms, args.repeat),
        ),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
