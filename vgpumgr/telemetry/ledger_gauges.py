"""The series that the ledger tells by itself: hosts, racks, pools, allocations, drivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from vgpumgr.health.failure_risk import risk_of, shipped_table
from vgpumgr.helper.series_text import label_text
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.desktop import DesktopRecord, DesktopState, PoolRecord
from vgpumgr.model.guest import GuestPhase
from vgpumgr.model.host_sample import HostSample
from vgpumgr.model.licence import Edition, Licence
from vgpumgr.model.power import MeterReading, PowerBudget
from vgpumgr.model.vm import VmRecord
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.fleet_frame import RACK, GpuFrame, HostFrame

_MILLI = 1000


def add_hosts(
    out: Exposition, hosts: Iterable[HostFrame], samples: Mapping[str, HostSample], now: float
) -> None:
    """How each host answered. One that is at rest is not asked, and has none of these."""
    for host in hosts:
        sample = samples.get(host.record.name)
        if sample is not None:
            out.add("vgpumgr_host_up", host.labels, int(sample.figures is not None))
            out.add("vgpumgr_host_probe_duration_seconds", host.labels, round(sample.took_s, 4))
            out.add("vgpumgr_host_probe_hung", host.labels, int(sample.hung))
        seen = host.record.observed_at
        if seen is not None and not host.record.at_rest:
            age = max(0.0, round(now - seen, 3))
            out.add("vgpumgr_host_probe_age_seconds", host.labels, age)
        _add_driver(out, host, sample)


def _add_driver(out: Exposition, host: HostFrame, sample: HostSample | None) -> None:
    told = sample.figures.driver if sample is not None and sample.figures is not None else None
    facts = host.record.facts
    driver = told or (facts.versions.driver if facts is not None else "")
    if driver and facts is not None:
        labels = {
            "driver": driver,
            "branch": f"R{driver.partition('.')[0]}",
            "kernel": facts.versions.kernel,
            "lock": "",
        }
        out.add("vgpumgr_host_driver_info", f"{host.labels},{label_text(labels)}", 1)


def add_racks(
    out: Exposition,
    hosts: Iterable[HostFrame],
    samples: Mapping[str, HostSample],
    budgets: Iterable[PowerBudget] = (),
) -> None:
    """The power of each rack whose every measured GPU is counted, its GPUs that are capped, and its
    budget: the least of the budgets that select their hosts by the rack's label.
    """
    _add_budgets(out, budgets)
    watts: Counter[str] = Counter()
    capped: Counter[str] = Counter()
    for host in hosts:
        sample = samples.get(host.record.name)
        if not host.rack or sample is None or sample.figures is None:
            continue
        for gpu in sample.figures.gpus:
            figures = gpu.figures
            watts[host.rack] += figures.get("power_mw", 0)
            limit, default = figures.get("limit_enforced_mw"), figures.get("limit_default_mw")
            capped[host.rack] += limit is not None and default is not None and limit < default
    for rack in sorted(watts):
        labels = label_text({"rack": rack})
        out.add("vgpumgr_rack_power_watts", labels, watts[rack] / _MILLI)
        out.add("vgpumgr_power_capped_gpus", labels, capped[rack])


def _add_budgets(out: Exposition, budgets: Iterable[PowerBudget]) -> None:
    least: dict[str, int] = {}
    for budget in budgets:
        rack = budget.host_labels.get(RACK)
        if rack:
            least[rack] = min(budget.watts, least.get(rack, budget.watts))
    for rack in sorted(least):
        out.add("vgpumgr_rack_power_budget_watts", label_text({"rack": rack}), least[rack])


def add_risks(out: Exposition, hosts: Iterable[HostFrame], now: float) -> None:
    """The risk of each GPU that has stopped taking VMs before: of the others nothing is known."""
    table = shipped_table()
    for host in hosts:
        for gpu in host.gpus:
            errors = gpu.record.health.serious
            if errors:
                risk = risk_of(table, errors, min(errors), now)
                out.add("vgpumgr_gpu_failure_risk_ratio", gpu.heads.labels, risk)


def add_pools(
    out: Exposition, pools: Sequence[PoolRecord], desktops: Iterable[DesktopRecord]
) -> None:
    """Desktops by state: a state that none is in has 0."""
    counts = Counter((row.pool, row.desktop.state) for row in desktops)
    for pool in pools:
        for state in DesktopState:
            labels = label_text({"pool": pool.name, "state": str(state)})
            out.add("vgpumgr_pool_desktops", labels, counts[pool.id, state])


def allocation_counts(
    allocations: Iterable[Allocation], vms: Iterable[VmRecord]
) -> Sequence[tuple[str, int]]:
    """How many there are of each kind, by the text of their labels."""
    tenants = {vm.id: vm.spec.tenant for vm in vms}
    counts = Counter(
        (tenants.get(each.vm_id, ""), each.framework, each.profile, str(each.state))
        for each in allocations
    )
    names = ("tenant", "framework", "profile", "state")
    return [
        (label_text(dict(zip(names, kind, strict=True))), count)
        for kind, count in sorted(counts.items())
    ]


def add_allocations(out: Exposition, counts: Iterable[tuple[str, int]]) -> None:
    """Their series."""
    for labels, count in counts:
        out.add("vgpumgr_allocations", labels, count)


def guest_counts(vms: Iterable[VmRecord]) -> Mapping[str, int]:
    """How many guests that have checks are in each phase."""
    every = (vm.guest for vm in vms if vm.spec.guest is not None)
    return Counter(str(each.phase) if each else str(GuestPhase.UNKNOWN) for each in every)


def add_guests(out: Exposition, counts: Mapping[str, int]) -> None:
    """Their series: a phase that none is in has 0."""
    for phase in GuestPhase:
        out.add("vgpumgr_guests", label_text({"phase": str(phase)}), counts.get(str(phase), 0))


def add_licences(out: Exposition, licences: Iterable[Licence], used: Mapping[str, int]) -> None:
    """Seats that are declared, and seats that VMs take."""
    seats = {each.edition: each.seats for each in licences}
    for edition in Edition:
        labels = label_text({"edition": edition.value})
        if edition in seats:
            out.add("vgpumgr_licence_seats", labels, seats[edition])
        out.add("vgpumgr_licence_seats_used", labels, used.get(edition, 0))


def fraction_of(gpu: GpuFrame, held: Allocation) -> float:
    """The share of a GPU that an allocation takes."""
    return min(1.0, len(held.slots) / max(1, gpu.record.units))


def add_meters(
    out: Exposition, budgets: Iterable[PowerBudget], meters: Iterable[MeterReading]
) -> None:
    """Of a meter that was read; its rack is the label of its budget, else the budget's name."""
    racks = {each.name: each.host_labels.get(RACK, each.name) for each in budgets}
    for meter in sorted(meters, key=lambda each: each.budget):
        rack = racks.get(meter.budget, meter.budget)
        for sensor, celsius in sorted(meter.coolant_c.items()):
            labels = label_text({"rack": rack, "sensor": sensor})
            out.add("vgpumgr_coolant_celsius", labels, celsius)
        for sensor, watts in sorted(meter.outlets.items()):
            labels = label_text({"rack": rack, "sensor": sensor})
            out.add("vgpumgr_pdu_outlet_watts", labels, watts)
