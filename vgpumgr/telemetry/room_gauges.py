"""The series that placement works out: what still fits, and unusable free GPU memory.

They change with the ledger, and cost more than all others together: each has a pace of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

from vgpumgr.engine.capacity.fragmentation_gauge import FragmentationMeasure
from vgpumgr.engine.capacity.profile_capacity import by_profile
from vgpumgr.engine.capacity.relayout_capacity import creatable
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.pools import pool_reading
from vgpumgr.helper.series_text import label_text
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.fleet_room import FleetRoom
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.fleet_frame import MIB, HostFrame

ROOM_EVERY_S, FRAGMENTATION_EVERY_S = 60.0, 600.0
# A part is worked out for at most this share of the time: for a large fleet it takes seconds.
_SHARE = 0.02
MOST_PROFILES = 6
"""Of one GPU that have a series: profiles of VMs and pools of the fleet."""
# What `vgpumgr capacity` asks for where nothing else is said.
_SHAPE = VmSpec(name="capacity", vcpus=2, memory_mib=4096)
Lines = list[tuple[str, str, float]]
"""Families, labels and values of series."""


@dataclass(slots=True)
class _Paced:
    """Lines that are renewed when they are due and something has changed."""

    every_s: float
    lines: Lines = field(default_factory=list)
    due: float = 0.0
    version: object = None


class RoomGauges:
    """Works them out for one engine; ``monotonic`` is in seconds."""

    def __init__(self, context: EngineContext, monotonic: Callable[[], float]) -> None:
        self._context = context
        self._monotonic = monotonic
        self._room = _Paced(ROOM_EVERY_S)
        self._fragmentation = _Paced(FRAGMENTATION_EVERY_S)

    def add(self, out: Exposition, hosts: Collection[HostFrame], version: object) -> None:
        """The series as they were last worked out, renewed where that is due."""
        self._renew(self._room, version, lambda: self._room_lines(hosts))
        self._renew(self._fragmentation, version, lambda: self._fragmentation_lines(hosts))
        for family, labels, value in (*self._room.lines, *self._fragmentation.lines):
            out.add(family, labels, value)

    def _renew(self, paced: _Paced, version: object, make: Callable[[], Lines]) -> None:
        began = self._monotonic()
        if began < paced.due or version == paced.version:
            return
        paced.lines, paced.version = make(), version
        ended = self._monotonic()
        paced.due = ended + max(paced.every_s, (ended - began) / _SHARE)

    def _room_lines(self, hosts: Collection[HostFrame]) -> Lines:
        fleet = build_fleet(self._context.view())
        room = FleetRoom(fleet, _SHAPE)
        made = by_profile(room.gpus_by_last)
        lines: Lines = [
            ("vgpumgr_headroom", label_text({"profile": name}), room.fits(name))
            for name in sorted(made)
        ]
        return [*lines, *self._pool_lines(), *_creatable_lines(room, hosts, self._wanted())]

    def _pool_lines(self) -> Lines:
        reading = pool_reading.read(self._context)
        return [
            (
                "vgpumgr_pool_spare_startable",
                label_text({"pool": pool.name}),
                reading.startable(pool),
            )
            for pool in reading.pools
        ]

    def _wanted(self) -> frozenset[str]:
        """The profiles that anything of the fleet has."""
        ledger = self._context.ledger
        held = {each.profile for each in ledger.allocations()}
        return frozenset(held | {pool.spec.profile for pool in ledger.pools()})

    def _fragmentation_lines(self, hosts: Collection[HostFrame]) -> Lines:
        context = self._context
        fleet = build_fleet(context.view())
        now = context.clock.now()
        measure = FragmentationMeasure(fleet, context.expected, context.ledger, now)
        lines: Lines = [("vgpumgr_fragmentation_ratio", "", measure.gauge().share)]
        lost = {each.gpu: each.free_mib for each in measure.stranded()}
        return [*lines, *_stranded_lines(fleet, hosts, lost)]


def _stranded_lines(
    fleet: Fleet, hosts: Collection[HostFrame], lost: dict[str, int]
) -> Iterator[tuple[str, str, float]]:
    """0 for a GPU all of whose free memory is of use."""
    known = {gpu.id for host in fleet.hosts for gpu in host.gpus}
    for host in hosts:
        for gpu in host.gpus:
            if gpu.record.id in known:
                value = lost.get(gpu.record.id, 0) * MIB
                yield "vgpumgr_gpu_framebuffer_stranded_bytes", gpu.heads.labels, value


def _creatable_lines(
    room: FleetRoom, hosts: Collection[HostFrame], wanted: Collection[str]
) -> Iterator[tuple[str, str, float]]:
    """GPUs of one shape make the same, and are asked once."""
    counts = [
        {each.profile: each.fits for each in creatable(sample) if not each.layout}
        for sample in room.gpus
    ]
    frames = {gpu.record.id: gpu for host in hosts for gpu in host.gpus}
    for host in room.fleet.hosts:
        for gpu, shape in zip(host.gpus, room.shapes_on(host.name), strict=True):
            frame = frames.get(gpu.id)
            if frame is None:
                continue
            uuid = frame.record.facts.uuid or gpu.id
            for profile in islice(filter(wanted.__contains__, counts[shape]), MOST_PROFILES):
                labels = {"host": host.name, "UUID": uuid, "profile": profile}
                yield "vgpumgr_profile_creatable", label_text(labels), counts[shape][profile]
