"""The endpoints of adoption: domains and partitioning of others, listed and taken over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.drifts import known_hosts
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.hosts import HostNames, OneHost
from vgpumgr.endpoints.layout_items import LayoutPlanItem, layout_plan_item
from vgpumgr.endpoints.outcomes import OutcomeItem, failure_of, outcome_item, outcome_result
from vgpumgr.endpoints.refreshed import unread_error
from vgpumgr.endpoints.shapes import Name
from vgpumgr.model.codec import to_plain

if TYPE_CHECKING:
    from vgpumgr.engine.adoption.candidate import AdoptionCandidate


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptableFilter:
    """Domains of these hosts; none named: of all."""

    hosts: HostNames = ()


class AdoptableItem(TypedDict):
    """A foreign domain; ``why`` has every reason that it cannot be adopted for. ``vm`` is the
    document of the VM that it would be.
    """

    name: str
    host: str
    domain: str
    power: str
    gpus: list[str]
    possible: bool
    why: list[str]
    notes: list[str]
    vm: Mapping[str, object] | None


class LoosePart(TypedDict):
    """Something foreign that no domain names; ``next`` is what helps."""

    host: str
    gpu: str
    subject: str
    text: str
    next: str


class AdoptableList(TypedDict):
    """Foreign domains, what no domain names, and a line per host that was not read."""

    items: list[AdoptableItem]
    loose: list[LoosePart]
    not_read: list[str]


def list_adoptable(context: CallContext, asked: AdoptableFilter) -> Result[AdoptableList]:
    """Probe, and list what is not managed; nothing is changed."""
    found = context.app.engine.adoptable(known_hosts(context, asked.hosts))
    item: AdoptableList = {
        "items": [_item(each) for each in found.candidates],
        "loose": [to_plain(each) for each in found.loose],
        "not_read": list(found.not_read),
    }
    return Result(answer=item, error=unread_error(found.not_read))


def _item(found: AdoptionCandidate) -> AdoptableItem:
    from vgpumgr.spec.dump import vm_document

    return {
        "name": f"{found.host}/{found.name}",
        "host": found.host,
        "domain": found.name,
        "power": "running" if found.running else "off",
        "gpus": [f"{each.offer.profile} on {each.parent or each.device}" for each in found.parts],
        "possible": found.possible,
        "why": list(found.why),
        "notes": list(found.notes),
        "vm": vm_document(found.spec) if found.spec else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionRequest:
    """Domains of a host to take under management, as VMs of a tenant."""

    host: Name
    vms: Annotated[tuple[Name, ...], ParameterLimits(min_length=1, max_length=10_000)]
    tenant: Name = "default"


def adopt_domains(context: CallContext, asked: AdoptionRequest) -> Result[OutcomeItem]:
    """Claim the GPU parts of domains and mark them as managed; a running VM keeps running."""
    [host] = known_hosts(context, [asked.host])
    with context.changing() as engine:
        outcome = engine.adopt(host, tuple(dict.fromkeys(asked.vms)), tenant=asked.tenant)
    return outcome_result(outcome)


class AdoptedLayout(LayoutPlanItem, OutcomeItem):
    """The partitioning of a host that was recorded as a layout."""


def adopt_layout(context: CallContext, asked: OneHost) -> Result[AdoptedLayout]:
    """Record how a host's GPUs are partitioned as their layout."""
    [host] = known_hosts(context, [asked.name])
    done, outcome = context.app.engine.adopt_layout(host)
    item: AdoptedLayout = {**layout_plan_item(done), **outcome_item(outcome)}
    return Result(answer=item, error=failure_of(outcome))


LIST_ADOPTABLE = Endpoint(
    name="adopt.list",
    method=HttpMethod.GET,
    path="/adoptable",
    permission=Permission.DRIFT_READ,
    summary="Domains that others made, and whether each can be adopted.",
    asks=AdoptableFilter,
    answers=AdoptableList,
    kind="AdoptableList",
    work=list_adoptable,
    runs=Runs.WORKER,
)
ADOPT_DOMAINS = Endpoint(
    name="adopt.apply",
    method=HttpMethod.POST,
    path="/hosts/{host}:adopt",
    permission=Permission.HEAL_APPLY,
    summary="Bring domains of a host under management, unchanged.",
    asks=AdoptionRequest,
    answers=OutcomeItem,
    kind="Outcome",
    work=adopt_domains,
    runs=Runs.OPERATION,
    size=lambda asked: len(asked.vms),
)
ADOPT_LAYOUT = Endpoint(
    name="adopt.layout",
    method=HttpMethod.POST,
    path="/hosts/{name}:adopt-layout",
    permission=Permission.LAYOUT_WRITE,
    summary="Record how a host's GPUs are partitioned as their layout.",
    asks=OneHost,
    answers=AdoptedLayout,
    kind="LayoutAdopt",
    work=adopt_layout,
    runs=Runs.WORKER,
)

ENDPOINTS = (LIST_ADOPTABLE, ADOPT_DOMAINS, ADOPT_LAYOUT)
