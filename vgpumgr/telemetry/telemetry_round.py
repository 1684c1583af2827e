"""One round of telemetry: hosts are asked, what they measure is joined with the ledger, and all of
it becomes the text that Prometheus reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vgpumgr.engine.inventory.ledger_view import LedgerView, read_view
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.planning.licence_limits import seats_used
from vgpumgr.model.desktop import DesktopRecord, PoolRecord
from vgpumgr.model.gpu_figures import Figures
from vgpumgr.model.host_sample import FleetSample, HostSample
from vgpumgr.model.licence import Licence
from vgpumgr.model.load_scale import VmLoad
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.ports import HostExecutor
from vgpumgr.model.power import MeterReading, PowerBudget
from vgpumgr.telemetry import ledger_gauges
from vgpumgr.telemetry.current_figures import CurrentGpu, current_gpus
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.figure_sampler import FigureSampler
from vgpumgr.telemetry.fleet_frame import FleetFrames, HostFrame
from vgpumgr.telemetry.licence_watch import LicenceNotice, LicenceWatch
from vgpumgr.telemetry.measured_series import MeasuredSeries
from vgpumgr.telemetry.room_gauges import RoomGauges
from vgpumgr.telemetry.running_totals import HeldShares, RunningTotals, held_shares
from vgpumgr.telemetry.use_history import gpu_key, part_key


def asks_for_loads(pool: PoolSpec) -> bool:
    """Does the pool count on what its desktops measure?"""
    triggers = pool.scale.triggers if pool.scale is not None else ()
    return pool.timeouts.idle_below is not None or any(each.metric.measured for each in triggers)


def is_scaled(view: LedgerView) -> bool:
    """Does a group of replicas follow its load?"""
    return any(vm.spec.scale is not None for vm in view.vms)


def vm_loads(gpus: Iterable[CurrentGpu]) -> tuple[VmLoad, ...]:
    """Of each VM whose vGPUs told something; of several vGPUs the busiest counts."""
    found: dict[str, VmLoad] = {}
    for gpu in gpus:
        for part in gpu.parts:
            if part.part is not None and part.figures:
                vm = part.part.allocation.vm_id
                load = _load(vm, gpu, part.figures)
                found[vm] = _busiest(found[vm], load) if vm in found else load
    return tuple(found.values())


def _load(vm: str, gpu: CurrentGpu, figures: Figures) -> VmLoad:
    used, whole = figures.get("framebuffer_used_bytes"), figures.get("framebuffer_total_bytes")
    return VmLoad(
        vm=vm,
        at=gpu.at,
        gpu=_share(gpu.figures, "utilization_percent"),
        engine=_share(figures, "sm_percent"),
        encoder=_share(figures, "encoder_percent"),
        decoder=_share(figures, "decoder_percent"),
        framebuffer=min(1.0, used / whole) if used is not None and whole else None,
    )


def _share(figures: Figures, name: str) -> float | None:
    return min(1.0, figures[name] / 100) if name in figures else None


def _busiest(one: VmLoad, other: VmLoad) -> VmLoad:
    return VmLoad(
        vm=one.vm,
        at=min(one.at, other.at),
        gpu=_larger(one.gpu, other.gpu),
        engine=_larger(one.engine, other.engine),
        encoder=_larger(one.encoder, other.encoder),
        decoder=_larger(one.decoder, other.decoder),
        framebuffer=_larger(one.framebuffer, other.framebuffer),
    )


def _larger(one: float | None, other: float | None) -> float | None:
    told = [each for each in (one, other) if each is not None]
    return max(told, default=None)


_HISTORY_S = 30 * 86_400.0
# Operations that ended while the round before looked are seen by the next.
_OVERLAP_S = 60.0
# The newest readings of the meters of power budgets.
ReadMeters = Callable[[Sequence[PowerBudget]], tuple[MeterReading, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOptions:
    """``interval_s`` between two rounds; ``details``: all series that hosts can tell; ``users``:
    the owners of dedicated desktops are named in labels.
    """

    interval_s: float = 15.0
    details: bool = False
    users: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What one version of the ledger says. ``loads``: what VMs do is asked for."""

    version: Any
    pools: tuple[PoolRecord, ...]
    desktops: tuple[DesktopRecord, ...]
    hosts: tuple[HostFrame, ...]
    held: HeldShares
    loads: bool
    allocations: Sequence[tuple[str, int]]
    licences: tuple[Licence, ...]
    seats: Mapping[str, int]
    guests: Mapping[str, int]
    budgets: tuple[PowerBudget, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """``text`` is the exposition, ``series`` how many it has; ``notices`` are what is new of
    licences; ``shares`` how busy GPUs and parts of them are, in percent, by their key in
    :class:`UseHistory`.
    """

    sample: FleetSample
    text: str
    series: int
    notices: tuple[LicenceNotice, ...] = ()
    shares: Mapping[str, int] = field(default_factory=dict)


def busy_shares(gpus: Iterable[CurrentGpu]) -> dict[str, int]:
    """Of the GPUs and the parts that VMs of ours have, as far as they were told."""
    found: dict[str, int] = {}
    for gpu in gpus:
        if (share := gpu.figures.get("utilization_percent")) is not None:
            found[gpu_key(gpu.frame.record.id)] = share
        for part in gpu.parts:
            share = part.figures.get("sm_percent")
            if part.part is not None and share is not None:
                found[part_key(part.part.allocation.vm_id, part.name)] = share
    return found


class TelemetryRound:
    """Takes rounds for one engine, and remembers what did not change."""

    def __init__(
        self,
        context: EngineContext,
        lanes: HostExecutor,
        options: TelemetryOptions,
        meters: ReadMeters = lambda _: (),
    ) -> None:
        self._meters = meters
        self._context = context
        self._options = options
        self._sampler = FigureSampler(context.hosts, lanes, context.clock.now)
        self._rooms = RoomGauges(context, context.clock.monotonic)
        self._measured = MeasuredSeries(details=options.details)
        self._totals = RunningTotals()
        self._frames = FleetFrames()
        self._licences = LicenceWatch()
        self._known: Readings | None = None
        self._since: float | None = None

    def take(self) -> RoundResult:
        """Ask, join, write."""
        began = time.monotonic()
        now = self._context.clock.now()
        samples = self._sampler.read(self._context.ledger.hosts())
        sample = FleetSample(
            at=now, interval_s=self._options.interval_s, hosts=tuple(samples.values())
        )
        known = self._readings()
        out = self._written(known, samples, self._context.clock.now())
        gpus = list(current_gpus(known.hosts, sample))
        if known.loads:
            sample = replace(sample, loads=vm_loads(gpus))
        meters = self._meters(known.budgets)
        ledger_gauges.add_meters(out, known.budgets, meters)
        sample = replace(sample, meters=meters)
        out.add("vgpumgr_telemetry_sampled_timestamp_seconds", "", round(now, 3))
        took_s = round(time.monotonic() - began, 4)
        out.add("vgpumgr_telemetry_sample_duration_seconds", "", took_s)
        out.add("vgpumgr_telemetry_series", "", out.series + 1)
        return RoundResult(
            sample=sample,
            text=out.text(),
            series=out.series,
            notices=tuple(self._licence_notices(known, gpus, sample.at)),
            shares=busy_shares(gpus),
        )

    def _licence_notices(
        self, known: Readings, gpus: Sequence[CurrentGpu], now: float
    ) -> Iterator[LicenceNotice]:
        yield from self._licences.guests(gpus, now)
        yield from self._licences.seats(known.licences, known.seats)

    def _written(
        self, known: Readings, samples: Mapping[str, HostSample], now: float
    ) -> Exposition:
        """All series of these samples, at ``now`` (Unix seconds)."""
        out = Exposition()
        self._measured.add(out, known.hosts, samples)
        ledger_gauges.add_hosts(out, known.hosts, samples, now)
        ledger_gauges.add_risks(out, known.hosts, now)
        ledger_gauges.add_racks(out, known.hosts, samples, known.budgets)
        ledger_gauges.add_pools(out, known.pools, known.desktops)
        ledger_gauges.add_allocations(out, known.allocations)
        ledger_gauges.add_licences(out, known.licences, known.seats)
        ledger_gauges.add_guests(out, known.guests)
        self._rooms.add(out, known.hosts, known.version)
        self._count(known, now)
        self._totals.add(out)
        return out

    def _readings(self) -> Readings:
        """As long as nothing is committed, it is what it was."""
        ledger = self._context.ledger
        version = ledger.version()
        if self._known is None or self._known.version != version:
            view, pools, desktops = read_view(ledger), ledger.pools(), ledger.desktops()
            hosts = self._frames.of(view, pools, desktops, users=self._options.users)
            rows = {row.vm_id: row for row in desktops if row.vm_id}
            names = {pool.id: pool.name for pool in pools}
            self._known = Readings(
                version=version,
                pools=pools,
                desktops=desktops,
                hosts=hosts,
                loads=is_scaled(view) or any(asks_for_loads(each.spec) for each in pools),
                held=held_shares(hosts, {vm.id: vm for vm in view.vms}, rows, names),
                licences=tuple(view.licences),
                seats=seats_used(view),
                guests=ledger_gauges.guest_counts(view.vms),
                allocations=ledger_gauges.allocation_counts(view.allocations, view.vms),
                budgets=tuple(view.budgets),
            )
        return self._known

    def _count(self, known: Readings, now: float) -> None:
        self._totals.count_time(known.held, now)
        ledger = self._context.ledger
        if self._since is None:
            self._totals.pass_over(ledger.operations(since=now - _HISTORY_S))
        else:
            self._totals.count_operations(ledger.operations(since=self._since - _OVERLAP_S))
        self._since = now
