"""The endpoint of a VM's performance: what may make it slow, with the evidence."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.figure_items import gpu_now, newest_sample, part_now
from vgpumgr.endpoints.refusal_items import own_vms
from vgpumgr.endpoints.shapes import Name
from vgpumgr.endpoints.top import asked_now, current_of, silent_hosts
from vgpumgr.model.domain import OFF, DomainState
from vgpumgr.model.formats import size_words

if TYPE_CHECKING:
    from vgpumgr.engine.inventory.ledger_view import LedgerView
    from vgpumgr.model.host import HostFacts
    from vgpumgr.model.vm import VmRecord
    from vgpumgr.telemetry.current_figures import CurrentGpu, CurrentPart
    from vgpumgr.telemetry.performance import DeviceLimit, Neighbour, PartFacts, PerformanceFacts


class PerformanceItem(TypedDict):
    """Something that can make a VM slow: ``cause`` where figures show it at work, ``possible``
    where it limits the VM and no figure shows that it bites, ``unknown`` where nothing tells.
    """

    code: str
    verdict: Literal["cause", "possible", "unknown", "ruled-out"]
    text: str
    next: str


class VmPerformance(TypedDict):
    """What may make a VM slow, the causes first. ``measured_s`` is the age of the figures; null:
    there are none of now.
    """

    name: str
    host: str
    measured_s: float | None
    summary: str
    findings: list[PerformanceItem]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainPerformance:
    """A VM by its name. ``refresh``: its host is asked for figures now."""

    name: Name
    refresh: bool = False


def explain_performance(context: CallContext, asked: ExplainPerformance) -> Result[VmPerformance]:
    """Evidence first, then what to type; NotFound for a VM that there is not."""
    from vgpumgr.telemetry.performance import findings, summary

    vm = context.reads.vm(asked.name)
    facts = _facts(context, vm, refresh=asked.refresh)
    found = findings(facts)
    items: list[PerformanceItem] = [
        {"code": each.code, "verdict": each.verdict.value, "text": each.text, "next": each.next}
        for each in found
    ]
    return Result(
        answer={
            "name": vm.name,
            "host": vm.host,
            "measured_s": facts.measured_s,
            "summary": summary(found),
            "findings": items,
        }
    )


def _facts(context: CallContext, vm: VmRecord, *, refresh: bool) -> PerformanceFacts:
    from vgpumgr.engine.inventory.ledger_view import read_host_view
    from vgpumgr.telemetry.performance import PerformanceFacts

    sample = asked_now(context, vm.host) if refresh else newest_sample(context.app)
    gpus = current_of(context, sample, {vm.host}) if sample is not None else []
    view = read_host_view(context.app.ledger, vm.host)
    [host] = [each for each in view.hosts if each.name == vm.host]
    known, own = host.facts, own_vms(context)
    told = any(gpu.told is not None for gpu in gpus)
    silent = silent_hosts(sample, vm.host) if sample is not None and own is None else []
    return PerformanceFacts(
        vm=vm.name,
        host=vm.host,
        running=_runs(vm, known),
        parts=tuple(_parts(view, vm, gpus, own)),
        vcpus=vm.spec.vcpus,
        pinned=bool(vm.cpus),
        cpu_shares=vm.spec.cpu_shares,
        host_cpus=known.cpus if known is not None else None,
        host_vcpus=_running_vcpus(known),
        numa_node=vm.numa_node,
        numa_nodes=len(known.numa) if known is not None else 1,
        disk_limits=tuple(_disk_limits(vm)),
        nic_limits=tuple(_nic_limits(vm)),
        measured_s=time.time() - sample.at if sample is not None and told else None,
        silent=silent[0]["why"] if silent else "",
    )


def _runs(vm: VmRecord, known: HostFacts | None) -> bool:
    """As its host showed it last; without a look, as it is wanted."""
    states = [each.state for each in known.domains if each.name == vm.name] if known else []
    return states[0] not in OFF if states else bool(vm.running)


def _running_vcpus(known: HostFacts | None) -> int:
    domains = known.domains if known is not None else ()
    return sum(each.vcpus for each in domains if each.state is DomainState.RUNNING)


def _parts(
    view: LedgerView, vm: VmRecord, gpus: Sequence[CurrentGpu], own: Collection[str] | None
) -> Iterator[PartFacts]:
    from vgpumgr.telemetry.performance import PartFacts

    records = {each.id: each for each in view.gpus}
    current = {each.frame.record.id: each for each in gpus}
    for held in view.allocations:
        record = records.get(held.gpu)
        if held.vm_id != vm.id or held.host != vm.host or record is None:
            continue
        gpu = current.get(held.gpu)
        figures = gpu.figures if gpu is not None else {}
        mine = next((p for p in gpu.parts if _is(p, held.id)), None) if gpu is not None else None
        now = gpu_now(gpu) if gpu is not None and figures else None
        part = part_now(mine) if mine is not None and mine.figures else None
        yield PartFacts(
            profile=held.profile,
            gpu=f"{record.facts.model} {record.facts.device}",
            gpu_id=record.id,
            health=str(record.health.state),
            whole=held.framework == "passthrough",
            licensed=part["licensed"] if part else None,
            limiter=held.frame_rate_limiter,
            frame_limit=mine.figures.get("frame_rate_limit") if mine is not None else None,
            frames=part["frames_per_second"] if part else None,
            share=part["utilization"] if part else None,
            gpu_share=now["utilization"] if now else None,
            neighbours=tuple(_neighbours(gpu, held.id, own)) if gpu is not None else (),
            scheduler=record.facts.scheduler,
            timing=record.facts.scheduler_timing,
            most=record.units // len(held.slots) if held.slots else None,
            throttled=tuple(now["throttled"]) if now and _tells_clocks(figures) else None,
            memory_used=part["memory_used_bytes"] if part else None,
            memory_total=part["memory_total_bytes"] if part else None,
            numa_node=record.facts.numa_node,
        )


def _is(part: CurrentPart, allocation: str) -> bool:
    return part.part is not None and part.part.allocation.id == allocation


def _tells_clocks(figures: Any) -> bool:
    return any(name.startswith("throttled_") for name in figures)


def _neighbours(
    gpu: CurrentGpu, allocation: str, own: Collection[str] | None
) -> Iterator[Neighbour]:
    """The others that run; VMs of other tenants have no name."""
    from vgpumgr.telemetry.performance import Neighbour

    for each in gpu.parts:
        if _is(each, allocation) or not each.figures:
            continue
        name = each.part.allocation.vm if each.part is not None else each.name
        share = part_now(each)["utilization"]
        yield Neighbour(vm=name if own is None or name in own else "", share=share)


def _disk_limits(vm: VmRecord) -> Iterator[DeviceLimit]:
    from vgpumgr.telemetry.performance import DeviceLimit

    for number, disk in enumerate(vm.spec.disks, 1):
        words = [f"{disk.tuning.iops} operations a second"] if disk.tuning.iops else []
        words += [f"{size_words(disk.tuning.bytes_s)} a second"] if disk.tuning.bytes_s else []
        if words:
            yield DeviceLimit(device=f"disk {number}", text=" and ".join(words))


def _nic_limits(vm: VmRecord) -> Iterator[DeviceLimit]:
    from vgpumgr.telemetry.performance import DeviceLimit

    for number, nic in enumerate(vm.spec.nics, 1):
        ways = (("in", nic.tuning.inbound_kib_s), ("out", nic.tuning.outbound_kib_s))
        words = [f"{size_words(limit << 10)} a second {way}" for way, limit in ways if limit]
        if words:
            yield DeviceLimit(device=f"NIC {number}", text=" and ".join(words))


EXPLAIN_PERFORMANCE = Endpoint(
    name="vm.performance",
    method=HttpMethod.GET,
    path="/vms/{name}/performance",
    permission=Permission.VM_READ,
    summary="What may make a VM slow, with the evidence.",
    asks=ExplainPerformance,
    answers=VmPerformance,
    kind="VmPerformance",
    work=explain_performance,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (EXPLAIN_PERFORMANCE,)
