"""The endpoints of whole files: what applying all kinds of documents would do, hosts enrolled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import (
    DocumentText,
    documents_of,
    new_hosts,
    source_name,
)
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.flavours import FlavourChanges, flavour_changes
from vgpumgr.endpoints.host_items import probe_summary
from vgpumgr.endpoints.layout_items import layout_plan_item
from vgpumgr.endpoints.own_documents import own_documents
from vgpumgr.endpoints.plan_items import PlanItem, plan_item
from vgpumgr.endpoints.pool_items import PoolChanges, pool_changes
from vgpumgr.endpoints.power_budgets import PowerBudgetChanges, budget_changes
from vgpumgr.endpoints.refreshed import unread_error
from vgpumgr.endpoints.vm_documents import PlanVms, planned_item
from vgpumgr.model.apply_plan import Plan
from vgpumgr.model.errors import AccessRefused, UnknownHostKey, UsageError, VgpumgrError
from vgpumgr.model.formats import counted
from vgpumgr.model.layout import LayoutPlan

if TYPE_CHECKING:
    from vgpumgr.model.host import HostRecord
    from vgpumgr.spec import Documents


class NewHostItem(TypedDict):
    """A host of a file that is not enrolled. ``key`` is the SSH key that it shows, where it is not
    known yet, ``problem`` why it showed none.
    """

    name: str
    address: str
    key: str
    problem: str


class FilePlan(PlanItem):
    """What applying a whole file would do: first ``new_hosts`` are enrolled, GPUs partitioned as
    ``layouts`` say, ``flavours`` and power ``budgets`` set, then the VMs, then ``pools``.
    ``later`` is what can be planned once the hosts are enrolled.
    """

    new_hosts: list[NewHostItem]
    flavours: NotRequired[FlavourChanges]
    budgets: NotRequired[PowerBudgetChanges]
    pools: NotRequired[PoolChanges]
    later: list[str]


def plan_file(context: CallContext, asked: PlanVms) -> Result[FilePlan]:
    """Probe, and plan all documents; nothing is changed."""
    documents = _own(context, asked)
    fresh = new_hosts(context.app.ledger, documents, asked.source)
    if fresh:
        items = [_new_host(context, host) for host in fresh]
        later = list(_later(documents))
        return Result(answer=_whole(plan_item(Plan()), items, later))
    if documents.vms or documents.layouts or documents.pools:
        context.app.require_hosts()
    layouts = _layouts(context, documents)
    item, planned = plan_item(Plan()), Plan()
    if documents.vms:
        item, planned = planned_item(context, documents, asked, layouts)
    if documents.layouts:
        item["layouts"] = layout_plan_item(layouts)
    whole = _whole(item, [], [])
    if documents.flavours:
        whole["flavours"] = flavour_changes(context, documents.flavours)
    if documents.budgets:
        whole["budgets"] = budget_changes(context, documents.budgets)
    if documents.pools:
        whole["pools"] = pool_changes(list(map(context.app.engine.pool_plan, documents.pools)))
    unread = dict.fromkeys((*layouts.warnings, *planned.warnings))
    return Result(answer=whole, error=unread_error(tuple(unread)))


def _whole(item: PlanItem, hosts: list[NewHostItem], later: list[str]) -> FilePlan:
    found: Any = {**item, "new_hosts": hosts, "later": later}
    whole: FilePlan = found
    return whole


def _own(context: CallContext, asked: DocumentText) -> Documents:
    """The documents, all of the caller; UsageError where there is none."""
    documents = documents_of(context.app.ledger, asked)
    d = documents
    if not (d.hosts or d.layouts or d.flavours or d.budgets or d.vms or d.pools):
        new_hosts(context.app.ledger, documents, asked.source)
        raise UsageError(
            f"{source_name(asked.source)} holds no document",
            next="add a document with kind: VM, Pool, Flavour, PowerBudget, Layout or Host",
        )
    if documents.budgets:
        first = documents.budgets[0].name
        context.require_everywhere(Permission.FLEET_READ, f"PowerBudget {first}")
    if documents.pools and not context.scope_of(Permission.POOL_READ):
        raise AccessRefused(
            f"Pool {documents.pools[0].name} needs {Permission.POOL_READ}",
            next="vgpumgr auth whoami; an administrator can grant more",
        )
    hosts, layouts = Permission.HOST_READ, Permission.LAYOUT_READ
    return own_documents(context, documents, hosts=hosts, layouts=layouts)


def _layouts(context: CallContext, documents: Documents) -> LayoutPlan:
    if not documents.layouts:
        return LayoutPlan()
    return context.app.engine.layout_plan(documents.layouts)


def _later(documents: Documents) -> Sequence[str]:
    """The part of the file that has to wait for its hosts."""
    found = (
        (len(documents.layouts), "layout"),
        (len(documents.flavours), "flavour"),
        (len(documents.budgets), "power budget"),
        (len(documents.vms), "VM"),
        (len(documents.pools), "pool"),
    )
    return [counted(number, what) for number, what in found if number]


def _new_host(context: CallContext, host: HostRecord) -> NewHostItem:
    """The host with the key that it shows, unless that is known already."""
    from vgpumgr.app.enrolment import shown_key

    item: NewHostItem = {"name": host.name, "address": host.address, "key": "", "problem": ""}
    try:
        item["key"] = shown_key(context.app, host)
    except VgpumgrError as error:
        item["problem"] = str(error)
    return item


PLAN_FILE = Endpoint(
    name="document.plan",
    method=HttpMethod.POST,
    path="/documents:plan",
    permission=Permission.VM_PLAN,
    summary="What applying documents of all kinds would do; nothing is changed.",
    asks=PlanVms,
    answers=FilePlan,
    kind="FilePlan",
    work=plan_file,
    runs=Runs.WORKER,
    scoped=True,
    also=(
        Permission.HOST_READ,
        Permission.LAYOUT_READ,
        Permission.POOL_READ,
        Permission.FLEET_READ,
    ),
)

HostKeys = Annotated[tuple[str, ...], ParameterLimits(max_length=1_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolHosts(DocumentText):
    """Host documents. ``keys`` are ``NAME=SHA256:…``, the SSH keys that were confirmed."""

    keys: HostKeys = ()


class EnrolledItem(TypedDict):
    """A host that was enrolled, with a summary of its GPUs and domains."""

    name: str
    summary: str


class EnrolledHosts(TypedDict):
    """The hosts that were enrolled."""

    items: list[EnrolledItem]


def enrol_hosts(context: CallContext, asked: EnrolHosts) -> Result[EnrolledHosts]:
    """Enrol the hosts that are not, one after the other until one fails. UnknownHostKey where a
    host shows a key that was not confirmed.
    """
    from vgpumgr.app.enrolment import enrol

    documents = documents_of(context.app.ledger, asked)
    keys = dict(_pair(each) for each in asked.keys)
    items: list[EnrolledItem] = []
    for host in new_hosts(context.app.ledger, documents, asked.source):
        if host.fence is not None:
            context.require_everywhere(Permission.HOST_PROGRAM, f"the fence of {host.name}")
        given = keys.get(host.name, "")
        try:
            done = enrol(context.app, host, fingerprint=given, install=True, accept=_refuse)
        except VgpumgrError as error:
            return Result(answer={"items": items}, error=error)
        items.append({"name": done.name, "summary": probe_summary(done)})
    return Result(answer={"items": items})


def _pair(text: str) -> tuple[str, str]:
    name, equals, key = text.partition("=")
    if not equals:
        raise UsageError(f"{text[:80]!r} is not NAME=SHA256:…")
    return name, key


def _refuse(host: str, fingerprint: str) -> None:
    raise UnknownHostKey(
        f"{host} shows the key {fingerprint}",
        why="that key was not confirmed",
        next="the same command at a terminal, or ssh to it once",
        fingerprint=fingerprint,
    )


ENROL_HOSTS = Endpoint(
    name="document.enrol",
    method=HttpMethod.POST,
    path="/documents:enrol",
    permission=Permission.HOST_WRITE,
    summary="Enrol the hosts of documents that are not enrolled.",
    asks=EnrolHosts,
    answers=EnrolledHosts,
    kind="HostEnrolment",
    work=enrol_hosts,
    runs=Runs.WORKER,
    also=(Permission.HOST_PROGRAM,),
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (PLAN_FILE, ENROL_HOSTS)
