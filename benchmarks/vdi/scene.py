"""The fleet, the five pools, and the clock times of the day.

106 hosts of two GPUs: 40 with A40 (same-size vGPUs), 66 with L40S (mixed-size mode). 2,000 desktops
at most. The day is the Monday after summer time came to Berlin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from benchmarks.placement.mixed_fleet import a40, l40s
from vgpumgr.model.pool import Entitlement, Naming, PoolSpec, Size, UpdatePolicy
from vgpumgr.model.pool_schedule import Schedule
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply
from vgpumgr.model.vm import GpuRequest, NumaPolicy, VmSpec

ZONE = "Europe/Berlin"
A40_HOSTS, L40S_HOSTS, GPUS_PER_HOST = 40, 66, 2
POOLS = (
    # name, profile, vCPUs, memory (MiB), desktops at most
    ("office", "A40-2Q", 4, 8192, 800),
    ("sales", "A40-4Q", 4, 8192, 400),
    ("design", "L40S-8Q", 6, 16384, 300),
    ("cad", "L40S-12Q", 8, 32768, 200),
    ("dev", "L40S-4Q", 6, 16384, 300),
)
GOOD, BAD = "1", "2-bad"
"""Versions of the images; desktops of the second never become ready."""


def at(hours: int, minutes: int = 0) -> float:
    """Unix time of a clock time of the day."""
    return datetime(2026, 3, 30, hours, minutes, tzinfo=ZoneInfo(ZONE)).timestamp()


@dataclass(frozen=True, slots=True)
class Times:
    """What happens when; Unix seconds."""

    begin: float = at(5)
    end: float = at(20)
    storm: float = at(8, 30)
    lunch: float = at(12)
    push: float = at(12)
    loss: float = at(14)
    busy_from: float = at(8)
    busy_to: float = at(18)


def fleet() -> Fleet:
    """Empty hosts with room enough for vCPUs and memory: GPUs are what is short."""
    a40s = [_host(f"a40-{n:02}", a40()) for n in range(A40_HOSTS)]
    l40ss = [_host(f"l40s-{n:02}", l40s()) for n in range(L40S_HOSTS)]
    return Fleet(hosts=(*a40s, *l40ss))


def pools() -> tuple[PoolSpec, ...]:
    """All alike but for their size: most desktops in the morning, then a tenth to spare."""
    return tuple(_pool(*each) for each in POOLS)


def _pool(name: str, profile: str, vcpus: int, memory_mib: int, most: int) -> PoolSpec:
    spare = most // 10
    office = tuple(range(5))
    morning = Schedule(days=office, start=7 * 60, end=10 * 60, min=most * 9 // 10, spare=spare)
    rest = Schedule(days=office, start=10 * 60, end=18 * 60, min=0, spare=spare)
    return PoolSpec(
        name=name,
        image=f"{name}@{GOOD}",
        desktop=VmSpec(
            name=name, vcpus=vcpus, memory_mib=memory_mib, gpus=(GpuRequest(profile=profile),),
            numa=NumaPolicy.NONE,
        ),
        naming=Naming(f"{name}-", 4),
        size=Size(min=0, spare=2, max=most),
        entitlement=Entitlement(groups=frozenset({name})),
        schedules=(morning, rest),
        zone=ZONE,
        update=UpdatePolicy(step=10),
    )  # fmt: skip


def _host(name: str, board: GpuSupply) -> HostSupply:
    gpus = tuple(
        replace(board, id=f"{name}/{n}", device=f"0000:{0x41 + n:02x}:00.0")
        for n in range(GPUS_PER_HOST)
    )
    return HostSupply(name=name, free_vcpus=512, free_memory_mib=2 << 20, numa=(), gpus=gpus)
