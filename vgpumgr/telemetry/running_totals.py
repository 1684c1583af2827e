"""Counters that nothing else keeps: time of GPUs that was held, and operations that have ended.

They begin with the process that samples; Prometheus knows a counter that begins again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vgpumgr.helper.series_text import label_text
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.operation import OperationRecord, OperationState
from vgpumgr.model.vm import VmRecord
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.fleet_frame import HostFrame
from vgpumgr.telemetry.ledger_gauges import fraction_of

OUTCOMES = (
    OperationState.DONE,
    OperationState.UNDONE,
    OperationState.PARTLY,
    OperationState.FAILED,
)
BOUNDS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
ON_DEMAND, RESERVED, SPOT = "on_demand", "reserved", "spot"
_MOST_REMEMBERED = 10_000

Holder = tuple[str, str, str, str]
"""Tenant, pool, profile, class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldShares:
    """Who holds which share of GPUs: parts with when each was made (Unix seconds), and sums.
    ``newest`` is when the last was made.
    """

    parts: tuple[tuple[Holder, float, float], ...]
    shares: Mapping[Holder, float]
    newest: float


@dataclass(slots=True)
class _Durations:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0


class RunningTotals:
    """The counters of one process. Times are the ledger's, in Unix seconds."""

    def __init__(self) -> None:
        self._held_s: dict[Holder, float] = {}
        self._counted_at: float | None = None
        self._ended: dict[tuple[str, str], int] = {}
        self._durations: dict[tuple[str, str], _Durations] = {}
        self._told: dict[str, float] = {}

    def count_time(self, held: HeldShares, now: float) -> None:
        """What is held now was held since the last time, or since it was made."""
        before, self._counted_at = self._counted_at, now
        for holder in held.shares:
            self._held_s.setdefault(holder, 0.0)
        if before is None:
            return
        if held.newest <= before:
            for holder, share in held.shares.items():
                self._held_s[holder] += max(0.0, now - before) * share
            return
        for holder, share, created_at in held.parts:
            self._held_s[holder] += max(0.0, now - max(before, created_at)) * share

    def count_operations(self, operations: Iterable[OperationRecord]) -> None:
        """Count operations that have ended, each once."""
        for each in operations:
            if each.ended_at is None or each.id in self._told:
                continue
            self._told[each.id] = each.ended_at
            key = (each.kind, str(each.state))
            self.know(each.kind)
            self._ended[key] = self._ended.get(key, 0) + 1
            took_s = max(0.0, each.ended_at - each.started_at)
            durations = self._durations.setdefault(key, _Durations())
            durations.counts[bisect_left(BOUNDS_S, took_s)] += 1
            durations.total_s += took_s
        if len(self._told) > _MOST_REMEMBERED:
            newest = sorted(self._told, key=self._told.__getitem__)[-_MOST_REMEMBERED // 2 :]
            self._told = {each: self._told[each] for each in newest}

    def know(self, kind: str) -> None:
        """Have a series of each outcome of it, at 0 where there was none."""
        for outcome in OUTCOMES:
            self._ended.setdefault((kind, str(outcome)), 0)

    def pass_over(self, operations: Iterable[OperationRecord]) -> None:
        """What ended before this process began is not counted, but its kinds are known."""
        for each in operations:
            self.know(each.kind)
            if each.ended_at is not None:
                self._told[each.id] = each.ended_at

    def add(self, out: Exposition) -> None:
        """Their series."""
        for (tenant, pool, profile, kind), seconds in sorted(self._held_s.items()):
            whose = {"tenant": tenant, "pool": pool, "profile": profile, "class": kind}
            out.add("vgpumgr_gpu_seconds_total", label_text(whose), round(seconds, 3))
        for (kind, outcome), count in sorted(self._ended.items()):
            labels = label_text({"kind": kind, "outcome": outcome})
            out.add("vgpumgr_operations_total", labels, count)
        for (kind, outcome), each in sorted(self._durations.items()):
            name = "vgpumgr_operation_duration_seconds"
            labels = label_text({"kind": kind, "outcome": outcome})
            out.add_histogram(name, labels, BOUNDS_S, each.counts, round(each.total_s, 3))


def held_shares(
    hosts: Iterable[HostFrame],
    vms: Mapping[str, VmRecord],
    desktops: Mapping[str, DesktopRecord],
    pools: Mapping[str, str],
) -> HeldShares:
    """Of one version of the ledger. ``desktops`` are by VM, ``pools`` their names by id."""
    parts = [
        (
            _holder(vm, desktops.get(vm.id), pools, held.profile),
            fraction_of(gpu, held),
            held.created_at,
        )
        for host in hosts
        for gpu in host.gpus
        for held in (part.allocation for part in gpu.parts)
        for vm in (vms.get(held.vm_id),)
        if vm is not None
    ]
    shares: dict[Holder, float] = {}
    for holder, share, _ in parts:
        shares[holder] = shares.get(holder, 0.0) + share
    newest = max((created_at for _, _, created_at in parts), default=0.0)
    return HeldShares(parts=tuple(parts), shares=shares, newest=newest)


def _holder(
    vm: VmRecord, row: DesktopRecord | None, pools: Mapping[str, str], profile: str
) -> Holder:
    session = row.desktop.session if row is not None else None
    kind = ON_DEMAND
    if vm.spec.queue is not None and vm.spec.queue.spot:
        kind = SPOT
    elif session is not None and session.booking:
        kind = RESERVED
    pool = pools.get(row.pool, "") if row is not None else ""
    return vm.spec.tenant, pool, profile, kind
