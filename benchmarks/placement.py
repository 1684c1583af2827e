"""Speed of placement decisions on a fleet of T4-like GPUs; prints JSON.

``place_*``: seconds to decide 1,000 VMs in one call. ``headroom``: seconds to count what still
fits for every profile, on the empty fleet and on one that holds those VMs. Best of ``--repeat``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace

from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework
from vgpumgr.model.placement import (
    Decision,
    Fleet,
    GpuSupply,
    HostSupply,
    NumaSupply,
    Offer,
    Placed,
    Usage,
)
from vgpumgr.model.vm import GpuRequest, NicSpec, PlacementPolicy, VmSpec
from vgpumgr.placement import headroom, place

UNITS = 16
SIZES = {"Q": (1, 2, 4, 8, 16), "B": (1, 2), "A": (1, 2, 4, 8, 16), "C": (4, 8, 16)}
MORE = {"B4": (1, 2)}


def offers() -> tuple[Offer, ...]:
    vgpus = tuple(
        Offer(
            profile=f"T4-{size}{series}",
            framework=Framework.MDEV,
            type_id=f"nvidia-{size}{series}",
            units=size,
            max_instances=UNITS // size,
            memory_mib=size * 1024,
            size_class=size,
        )
        for series, sizes in {**SIZES, **MORE}.items()
        for size in sizes
    )
    whole = Offer(
        profile=PASSTHROUGH_PROFILE,
        framework=Framework.PASSTHROUGH,
        type_id="",
        units=UNITS,
        max_instances=1,
        memory_mib=UNITS * 1024,
    )
    return (*vgpus, whole)


def fleet(hosts: int, gpus: int) -> Fleet:
    made = offers()
    return Fleet(hosts=tuple(_host(f"host-{n:03}", gpus, made) for n in range(hosts)))


def _host(name: str, gpus: int, made: tuple[Offer, ...]) -> HostSupply:
    return HostSupply(
        name=name,
        free_vcpus=256,
        free_memory_mib=512 * 1024,
        numa=tuple(
            NumaSupply(
                id=node,
                free_cpus=tuple(range(node * 32, node * 32 + 32)),
                free_memory_mib=256 * 1024,
            )
            for node in (0, 1)
        ),
        gpus=tuple(_gpu(name, number, made) for number in range(gpus)),
        networks=("default",),
        bridges=("br0",),
        pools={"default": 1 << 40},
    )


def _gpu(host: str, number: int, made: tuple[Offer, ...]) -> GpuSupply:
    return GpuSupply(
        id=f"{host}/{number}",
        device=f"0000:{0x41 + number:02x}:00.0",
        model="T4",
        numa_node=number % 2,
        units=UNITS,
        free_slots=tuple(range(UNITS)),
        offers=made,
        same_size=True,
        available={offer.type_id: offer.max_instances for offer in made if offer.type_id},
    )


def vm(number: int, profile: str) -> VmSpec:
    return VmSpec(
        name=f"vm-{number:04}",
        vcpus=4,
        memory_mib=8192,
        gpus=(GpuRequest(profile=profile),),
        nics=(NicSpec(bridge="br0"),),
        labels={"number": str(number)},
    )


def loaded(before: Fleet, decisions: tuple[Decision, ...]) -> Fleet:
    """The fleet as the next look would see it."""
    taken: dict[str, list[tuple[Usage, tuple[int, ...]]]] = {}
    for decision in decisions:
        if isinstance(decision, Placed):
            for part in decision.assignments:
                usage = Usage(
                    profile=part.offer.profile,
                    framework=part.offer.framework,
                    units=len(part.slots),
                    size_class=part.offer.size_class,
                    vm=decision.request.name,
                )
                taken.setdefault(part.gpu, []).append((usage, part.slots))
    return Fleet(
        hosts=tuple(
            replace(host, gpus=tuple(_used(gpu, taken.get(gpu.id, [])) for gpu in host.gpus))
            for host in before.hosts
        )
    )


def _used(gpu: GpuSupply, taken: list[tuple[Usage, tuple[int, ...]]]) -> GpuSupply:
    slots = {slot for _, part in taken for slot in part}
    return replace(
        gpu,
        free_slots=tuple(slot for slot in gpu.free_slots if slot not in slots),
        usages=tuple(usage for usage, _ in taken),
        available={},
    )


def best(repeat: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return round(min(times), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--vms", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    empty = fleet(args.hosts, args.gpus)
    alike = [vm(n, "T4-4Q") for n in range(args.vms)]
    mixed = [vm(n, f"T4-{(1, 2, 4)[n % 3]}Q") for n in range(args.vms)]
    breadth, depth = PlacementPolicy.BREADTH_FIRST, PlacementPolicy.DEPTH_FIRST
    full = loaded(empty, place(empty, mixed, depth))
    profiles = [vm(0, offer.profile) for offer in offers()]
    report = {
        "hosts": args.hosts,
        "gpus": args.hosts * args.gpus,
        "vms": args.vms,
        "profiles": len(profiles),
        "placed": sum(isinstance(d, Placed) for d in place(empty, alike, breadth)),
        "place_breadth_first_s": best(args.repeat, lambda: place(empty, alike, breadth)),
        "place_depth_first_s": best(args.repeat, lambda: place(empty, alike, depth)),
        "place_mixed_profiles_s": best(args.repeat, lambda: place(empty, mixed, depth)),
        "place_four_times_the_vms_s": best(args.repeat, lambda: place(empty, alike * 4, depth)),
        "headroom_empty_s": best(args.repeat, lambda: [headroom(empty, p) for p in profiles]),
        "headroom_loaded_s": best(args.repeat, lambda: [headroom(full, p) for p in profiles]),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
