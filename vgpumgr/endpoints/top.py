"""The endpoint of what GPUs and VMs do now, and what `show` says of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.figure_items import (
    GpuNow,
    PartNow,
    TopGpu,
    gpu_hour,
    gpu_now,
    newest_sample,
    part_now,
    top_gpu,
)
from vgpumgr.endpoints.refreshed import unread_error
from vgpumgr.endpoints.refusal_items import own_vms
from vgpumgr.endpoints.shapes import Name, Time
from vgpumgr.model.errors import NotFound

if TYPE_CHECKING:
    from vgpumgr.model.host_sample import FleetSample
    from vgpumgr.telemetry.current_figures import CurrentGpu

_LANES_S = 25.0


class SilentHost(TypedDict):
    """A host that told no figures, or not all; ``hung``: it, or its driver, did not answer in
    time.
    """

    host: str
    hung: bool
    why: str


class TopAnswer(TypedDict):
    """GPUs at work. ``at`` is when the hosts were asked, null where that was not lately: no `serve`
    runs on the machine that answers. ``interval_s`` is the time between two readings.
    """

    name: str
    at: Time | None
    interval_s: float | None
    items: list[TopGpu]
    silent: list[SilentHost]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopAsked:
    """GPUs of one ``host``, or all. ``refresh``: the hosts are asked now."""

    host: Name | None = None
    refresh: bool = False


def show_top(context: CallContext, asked: TopAsked) -> Result[TopAnswer]:
    """The newest figures of every GPU and VM; for who sees not all tenants, of GPUs with a VM of
    theirs.
    """
    ledger = context.app.ledger
    host = ledger.host(asked.host).name if asked.host else None
    sample = asked_now(context, host) if asked.refresh else newest_sample(context.app)
    if sample is None:
        nothing: TopAnswer = {
            "name": "top",
            "at": None,
            "interval_s": None,
            "items": [],
            "silent": [],
        }
        return Result(answer=nothing)
    own = own_vms(context)
    hosts = None if host is None else {host}
    found = (
        top_gpu(each, gpu_hour(context.app, each.frame.record.id), own)
        for each in current_of(context, sample, hosts)
    )
    items = [each for each in found if own is None or each["parts"]]
    silent = silent_hosts(sample, host)
    error = unread_error(tuple(f"{each['host']}: {each['why']}" for each in silent))
    return Result(
        answer={
            "name": "top",
            "at": sample.at,
            "interval_s": sample.interval_s or None,
            "items": items,
            "silent": silent if own is None else [],
        },
        error=error if asked.refresh and own is None else None,
    )


def asked_now(context: CallContext, host: str | None) -> FleetSample:
    """What the hosts, or one, say at this moment."""
    import time

    from vgpumgr.engine.workers.thread_workers import ThreadWorkers
    from vgpumgr.model.host_sample import FleetSample
    from vgpumgr.telemetry.figure_sampler import FigureSampler

    app = context.app
    records = [each for each in app.ledger.hosts() if host in {None, each.name}]
    sampler = FigureSampler(app.hosts, ThreadWorkers(app.config.lanes), time.time)
    found = sampler.read(records, _LANES_S)
    return FleetSample(at=time.time(), interval_s=0.0, hosts=tuple(found.values()))


def current_of(
    context: CallContext, sample: FleetSample, hosts: Collection[str] | None
) -> list[CurrentGpu]:
    """The GPUs of these hosts, or all. One host's rows are read alone, those of several with all
    others: a reading for each of them would take longer.
    """
    from vgpumgr.engine.inventory.ledger_view import read_host_view, read_view
    from vgpumgr.telemetry.current_figures import current_gpus
    from vgpumgr.telemetry.fleet_frame import frames

    ledger = context.app.ledger
    if hosts is not None and len(hosts) == 1:
        view = read_host_view(ledger, *hosts)
    else:
        view = read_view(ledger)
        asked = tuple(each for each in view.hosts if hosts is None or each.name in hosts)
        view = replace(view, hosts=asked)
    return list(current_gpus(frames(view), sample))


def silent_hosts(sample: FleetSample, host: str | None) -> list[SilentHost]:
    """The hosts, or one, that told no figures, and why."""
    return [
        {
            "host": each.host,
            "hung": each.hung,
            "why": each.error or "NVIDIA's driver does not answer",
        }
        for each in sample.hosts
        if host in {None, each.host} and (each.hung or each.figures is None)
    ]


def gpu_figures(context: CallContext, host: str, gpu: str) -> GpuNow | None:
    """What a GPU (its id) measured last; None where nothing is known of now."""
    sample = newest_sample(context.app)
    if sample is None:
        return None
    found = (each for each in current_of(context, sample, {host}) if each.frame.record.id == gpu)
    return next((gpu_now(each) for each in found if each.told is not None), None)


def part_figures(context: CallContext, hosts: Iterable[str]) -> dict[tuple[str, str], PartNow]:
    """What the parts of these hosts' GPUs measured last, by VM (its id) and device."""
    sample = newest_sample(context.app)
    found: dict[tuple[str, str], PartNow] = {}
    asked = frozenset(hosts)
    if sample is None or not asked:
        return found
    with suppress(NotFound):  # it has left meanwhile
        for gpu in current_of(context, sample, asked):
            for part in gpu.parts:
                if part.part is not None and part.figures:
                    found[part.part.allocation.vm_id, part.name] = part_now(part)
    return found


SHOW_TOP = Endpoint(
    name="top.show",
    method=HttpMethod.GET,
    path="/top",
    permission=Permission.FLEET_READ,
    summary="What GPUs and VMs measure now.",
    asks=TopAsked,
    answers=TopAnswer,
    kind="Top",
    work=show_top,
    scoped=True,
)

ENDPOINTS = (SHOW_TOP,)
