"""The endpoint of simulations: what would fit on a changed fleet."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import (
    DocumentText,
    Source,
    Text,
    documents_of,
    source_name,
    vms_of,
)
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.known_profiles import known_profile
from vgpumgr.endpoints.plan_items import ReasonItem, reason_items
from vgpumgr.endpoints.refreshed import refresh
from vgpumgr.model.errors import UsageError
from vgpumgr.model.failover import NO_RESERVE, FailoverReserve
from vgpumgr.model.formats import parse_mib
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.vm import GpuRequest, VmSpec

if TYPE_CHECKING:
    from vgpumgr.engine.inventory.ledger_view import LedgerView
    from vgpumgr.engine.whatif.hypothetical_hosts import AddedHosts
    from vgpumgr.engine.whatif.simulation import Simulation, VmFate

Words = Annotated[tuple[str, ...], ParameterLimits(max_length=1000)]
_MOST = 10_000
_ADD = re.compile(r"(?P<profile>[^=]+)(=(?P<count>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFleet:
    """What is supposed. Asked for are the VMs of documents (``text`` of ``source``) and of ``add``,
    ``PROFILE=N`` each, with this much CPU and memory. Hosts are added by words (``HOST×N``,
    ``BOARD×N``) and by the Fleet documents of ``fleets`` (of ``fleet_sources``), hosts ``fail``,
    VMs are removed. ``fail_each``: after all that, each host alone is lost. ``refresh``:
    all hosts are probed first.
    """

    text: Text | None = None
    source: Source = "FILE"
    add: Words = ()
    vcpus: Annotated[int, ParameterLimits(ge=1, le=512)] = 2
    memory_mib: Annotated[int, ParameterLimits(ge=1)] = 4096
    add_hosts: Words = ()
    fleets: Annotated[tuple[Text, ...], ParameterLimits(max_length=16)] = ()
    fleet_sources: Annotated[tuple[Source, ...], ParameterLimits(max_length=16)] = ()
    fail: Words = ()
    remove_vms: Words = ()
    fail_each: bool = False
    refresh: bool = False


class SuggestedPart(TypedDict):
    """A GPU part that a VM would get."""

    profile: str
    device: str


class SimulatedVm(TypedDict):
    """A VM that was on a host, or is new (null), and the host that it would be on; null: nowhere,
    and a reason per GPU or host.
    """

    vm: str
    was_on: str | None
    host: str | None
    parts: list[SuggestedPart]
    reasons: list[ReasonItem]


class KeptVm(TypedDict):
    """A VM that stays on a host that fails, and why."""

    vm: str
    was_on: str
    why: str


class AddedHost(TypedDict):
    """A host that was supposed, and how its GPUs are partitioned."""

    host: str
    layout: str


class RemovedVm(TypedDict):
    """A VM that was supposed to be deleted."""

    vm: str
    was_on: str


class LossItem(TypedDict):
    """A lost host, how many VMs would be recreated elsewhere, and those without a place."""

    host: str
    vms: int
    homeless: list[str]


class SimulationItem(TypedDict):
    """Where VMs would be; ``homeless`` counts the ones without a place, ``losses`` are what the
    loss of each host would come to, where that was asked for.
    """

    name: str
    vms: list[SimulatedVm]
    kept: list[KeptVm]
    added: list[AddedHost]
    removed: list[RemovedVm]
    losses: list[LossItem]
    homeless: int


def simulate_fleet(context: CallContext, asked: ChangedFleet) -> Result[SimulationItem]:
    """Place VMs of failed hosts, then what is asked for; nothing is changed."""
    from vgpumgr.engine.inventory.ledger_view import read_view
    from vgpumgr.engine.operations.expected_requests import place_function
    from vgpumgr.engine.whatif.simulation import Supposition, simulate

    app = context.app
    unread = refresh(context) if asked.refresh else None
    view = read_view(app.ledger)
    supposed = Supposition(
        asked=tuple(_asked(context, asked, view)),
        added=tuple(_added(context, asked, view)),
        failed=asked.fail,
        removed=asked.remove_vms,
        reserve=FailoverReserve(hosts=int(asked.fail_each), policy=app.config.policy),
    )
    if supposed == Supposition(reserve=NO_RESERVE):
        raise UsageError(
            "nothing to simulate",
            next="--add A40-8Q=40, --fail HOST, --fail-each, --add-host HOST×2, …",
        )
    place = place_function(app.config.policy, app.expected, app.ledger, time.time())
    return Result(answer=_item(simulate(view, supposed, place)), error=unread)


def _item(found: Simulation) -> SimulationItem:
    return {
        "name": "simulation",
        "vms": [_fate(fate) for fate in found.fates],
        "kept": [{"vm": vm.name, "was_on": vm.host, "why": why} for vm, why in found.kept],
        "added": [{"host": host, "layout": text} for host, text in found.added],
        "removed": [{"vm": vm.name, "was_on": vm.host} for vm in found.removed],
        "losses": [
            {"host": " ".join(each.hosts), "vms": each.vms, "homeless": list(each.homeless)}
            for each in found.losses
        ],
        "homeless": found.homeless,
    }


def _fate(fate: VmFate) -> SimulatedVm:
    decision = fate.decision
    placed = decision if isinstance(decision, Placed) else None
    reasons = decision.reasons if isinstance(decision, NotPlaced) else ()
    parts = placed.assignments if placed else ()
    return {
        "vm": decision.request.name,
        "was_on": fate.was_on or None,
        "host": placed.host if placed else None,
        "parts": [{"profile": each.offer.profile, "device": each.device} for each in parts],
        "reasons": reason_items(reasons),
    }


def _asked(context: CallContext, asked: ChangedFleet, view: LedgerView) -> Iterator[VmSpec]:
    if asked.text is not None:
        given = DocumentText(text=asked.text, source=asked.source)
        yield from vms_of(documents_of(context.app.ledger, given), asked.source)
    for text in asked.add:
        yield from _vms(context, asked, text, view)


def _vms(
    context: CallContext, asked: ChangedFleet, text: str, view: LedgerView
) -> Iterator[VmSpec]:
    given = _ADD.fullmatch(text)
    count = int(given["count"] or 1) if given else 0
    if given is None or not 0 < count <= _MOST:
        raise UsageError(f"--add {text}: write PROFILE=N, N at most {_MOST}")
    profile = given["profile"]
    if any(host.name == profile for host in view.hosts):
        raise UsageError(
            f"--add {text}: {profile} is a host, and --add takes a profile",
            next=f"vgpumgr simulate --add-host {profile}×{count}",
        )
    gpus = (_part(context, profile),)
    for number in range(1, count + 1):
        yield VmSpec(
            name=f"{profile} #{number}",
            vcpus=asked.vcpus,
            memory_mib=asked.memory_mib,
            gpus=gpus,
        )


def _part(context: CallContext, text: str) -> GpuRequest:
    """By size where it is one, else by name; UnknownProfile for what is neither."""
    try:
        return GpuRequest(memory_mib=parse_mib(text))
    except ValueError:
        return GpuRequest(profile=known_profile(context.app.ledger, text))


def _added(context: CallContext, asked: ChangedFleet, view: LedgerView) -> list[AddedHosts]:
    from vgpumgr.app import hypothetical_hosts

    found: list[AddedHosts] = []
    sources = [*asked.fleet_sources, *["FILE"] * len(asked.fleets)]
    for text, source in zip(asked.fleets, sources, strict=False):
        given = DocumentText(text=text, source=source)
        fleets = documents_of(context.app.ledger, given).fleets
        if not fleets:
            raise UsageError(f"{source_name(source)} holds no document of kind: Fleet")
        found += hypothetical_hosts.hosts_of_fleets(fleets)
    for words in asked.add_hosts:
        taken = [host.name for each in found for host in each.options[0].hosts]
        found.append(hypothetical_hosts.host_by_words(words, view, taken))
    return found


SIMULATE = Endpoint(
    name="simulate.run",
    method=HttpMethod.POST,
    path="/fleet:simulate",
    permission=Permission.FLEET_READ,
    summary="What would fit on a changed fleet; nothing is changed.",
    asks=ChangedFleet,
    answers=SimulationItem,
    kind="Simulation",
    work=simulate_fleet,
    runs=Runs.WORKER,
)

ENDPOINTS = (SIMULATE,)
