"""The endpoints of hosts: list, show, probe, and the settings that commands change."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import TypedDict

from vgpumgr import API_VERSION
from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.host_items import HostItem, host_item, probe_summary
from vgpumgr.endpoints.refreshed import refresh
from vgpumgr.endpoints.refusal_items import own_vms
from vgpumgr.endpoints.shapes import ItemList, Labels, Name, matches, selector
from vgpumgr.endpoints.tags import host_tag
from vgpumgr.model.errors import (
    HostUnreachable,
    NotFound,
    OutcomeUnknown,
    PartlyDone,
    UsageError,
    VgpumgrError,
)
from vgpumgr.model.host import HostRecord

if TYPE_CHECKING:
    from vgpumgr.engine.inventory.observation import Observation
    from vgpumgr.model.domain import MigrationAddress

HostNames = Annotated[tuple[Name, ...], ParameterLimits(max_length=10_000)]
SomeHosts = Annotated[tuple[Name, ...], ParameterLimits(min_length=1, max_length=10_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFilter:
    """Hosts with all of these ``labels``; ``refresh``: all hosts are probed first."""

    labels: Labels = ()
    refresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OneHost:
    """A host by its name."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedHosts:
    """Hosts by their names."""

    names: SomeHosts


def list_hosts(context: CallContext, asked: HostFilter) -> Result[ItemList[HostItem]]:
    """Hosts by name."""
    wanted = selector(asked.labels)
    unread = refresh(context) if asked.refresh else None
    found = [each for each in context.reads.hosts() if matches(each.labels, wanted)]
    return Result(answer=host_list(context, found), error=unread)


def show_host(context: CallContext, asked: OneHost) -> Result[HostItem]:
    """One host; NotFound suggests near names."""
    record = context.reads.host(asked.name)
    return Result(answer=host_item(record, context.app.ledger.refusals(), own_vms(context)))


def host_list(context: CallContext, records: list[HostRecord]) -> ItemList[HostItem]:
    """The JSON of these hosts."""
    refusals = context.app.ledger.refusals() if records else ()
    own = own_vms(context)
    return {"items": [host_item(each, refusals, own) for each in records]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """Hosts to probe; none named: all."""

    names: HostNames = ()


class ProbedHost(TypedDict):
    """A host that answered, and what it has in a few words."""

    name: str
    summary: str


class ProbeAnswer(TypedDict):
    """The hosts that answered, and a line per host that did not, or was set aside."""

    items: list[ProbedHost]
    set_aside: list[str]
    failed: list[str]


def probe_hosts(context: CallContext, asked: ProbeRequest) -> Result[ProbeAnswer]:
    """Probe hosts, and keep what was seen."""
    app = context.app
    for name in asked.names:
        app.ledger.host(name)
    app.require_hosts()
    seen = app.engine.refresh(asked.names)
    probed: list[ProbedHost] = [
        {"name": name, "summary": probe_summary(app.writable_ledger.host(name))}
        for name in sorted(seen.facts)
    ]
    failed = [
        f"{name}: {error.message}{f' ({error.why})' if error.why else ''}"
        for name, error in sorted(seen.failed.items())
    ]
    answer: ProbeAnswer = {"items": probed, "set_aside": list(seen.set_aside), "failed": failed}
    return Result(answer=answer, error=_probe_error(seen))


def _probe_error(seen: Observation) -> VgpumgrError | None:
    failed = dict(seen.failed)
    if failed and not seen.facts and len(failed) == 1:
        error = next(iter(failed.values()))
        if not isinstance(error, OutcomeUnknown):
            error.next = "vgpumgr doctor"
        return error
    if (
        failed
        and not seen.facts
        and all(isinstance(error, HostUnreachable) for error in failed.values())
    ):
        return HostUnreachable(
            f"none of {len(failed)} hosts could be reached", next="vgpumgr doctor"
        )
    if failed:
        return PartlyDone(
            f"{len(failed)} of {len(failed) + len(seen.facts)} hosts could not be probed",
            next="vgpumgr doctor",
        )
    return None


def cordon_hosts(context: CallContext, asked: NamedHosts) -> Result[ItemList[HostItem]]:
    """No VM is placed on them any more; what runs there stays."""
    ledger = context.app.ledger
    for record in [ledger.host(name) for name in asked.names]:
        context.app.writable_ledger.update_host(replace(record, cordoned=True))
    return _as_they_are(context, asked.names)


def uncordon_hosts(context: CallContext, asked: NamedHosts) -> Result[ItemList[HostItem]]:
    """VMs are placed on them again, and a drain of them ends; Conflict in maintenance."""
    for name in asked.names:
        context.app.ledger.host(name)
    done: list[str] = []
    error: VgpumgrError | None = None
    for name in asked.names:
        try:
            context.app.engine.undrain(name)
        except VgpumgrError as failure:
            error = failure
            break
        done.append(name)
    return replace(_as_they_are(context, done), error=error)


def _as_they_are(context: CallContext, names: Iterable[str]) -> Result[ItemList[HostItem]]:
    ledger = context.app.writable_ledger
    return Result(answer=host_list(context, [ledger.host(name) for name in names]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """A setting of hosts that are named, or that have all of these ``labels``, or of ``every``
    host: who partitions GPUs, Layouts alone (``declared``) or VMs as they need empty ones.
    """

    names: HostNames = ()
    labels: Labels = ()
    every: bool = False
    layout: Literal["declared", "auto"]


def set_hosts(context: CallContext, asked: HostSettings) -> Result[ItemList[HostItem]]:
    """Change the setting; NotFound where no host has the labels."""
    records = _chosen(context, asked)
    for record in records:
        if record.layout != asked.layout:
            changed = replace(record, layout=asked.layout)
            context.app.writable_ledger.update_host(changed)
    return _as_they_are(context, [each.name for each in records])


def _chosen(context: CallContext, asked: HostSettings) -> list[HostRecord]:
    """The hosts of exactly one way to name them."""
    ledger, wanted = context.app.ledger, selector(asked.labels)
    if (bool(asked.names), bool(wanted), asked.every).count(True) != 1:
        raise UsageError("name hosts, or choose them by -l KEY=VALUE, or --all")
    if asked.names:
        return [ledger.host(name) for name in asked.names]
    found = [each for each in ledger.hosts() if matches(each.labels, wanted)]
    if not found:
        raise NotFound(
            "no host is enrolled that has these labels", next="vgpumgr host list -o json"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLabels:
    """The labels that a host has from then on; without any, none."""

    name: Name
    labels: Labels = ()


def set_labels(context: CallContext, asked: NewLabels) -> Result[HostItem]:
    """Replace the host's labels."""
    record = context.app.ledger.host(asked.name)
    labels = dict(selector(asked.labels))
    wanted = host_from(name=record.name, address=record.address, labels=labels)
    if wanted.labels != record.labels:
        context.app.writable_ledger.update_host(replace(record, labels=wanted.labels))
    return show_host(context, OneHost(name=record.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMigrationAddress:
    """Where other hosts send running VMs of a host: the migration block of a Host document."""

    name: Name
    address: str
    tls: bool = True
    tls_name: str | None = None
    bandwidth: str | None = None


def set_migration(context: CallContext, asked: NewMigrationAddress) -> Result[HostItem]:
    """Accept live migrations there."""
    record = context.app.ledger.host(asked.name)
    return _with_migration(context, record, _migration(record, asked))


def remove_migration(context: CallContext, asked: OneHost) -> Result[HostItem]:
    """Accept no live migrations any more."""
    return _with_migration(context, context.app.ledger.host(asked.name), None)


def _with_migration(
    context: CallContext, record: HostRecord, wanted: MigrationAddress | None
) -> Result[HostItem]:
    context.app.writable_ledger.update_host(replace(record, migration=wanted))
    return show_host(context, OneHost(name=record.name))


def _migration(record: HostRecord, asked: NewMigrationAddress) -> MigrationAddress | None:
    block: dict[str, Any] = {"address": asked.address, "tls": asked.tls}
    for key, value in (("tls_name", asked.tls_name), ("bandwidth", asked.bandwidth)):
        if value is not None:
            block[key] = value
    return host_from(name=record.name, address=record.address, migration=block).migration


def host_from(**fields: object) -> HostRecord:
    """The host of a document with these fields, which goes through the checks of a file."""
    from vgpumgr.spec import COMMAND_LINE, load

    document = {"apiVersion": API_VERSION, "kind": "Host", **fields}
    return load(json.dumps(document, ensure_ascii=False).encode(), COMMAND_LINE).hosts[0]


def _bulk(verb: str, asks: type[Any], work: Any, summary: str) -> Endpoint[Any, Any]:
    return Endpoint(
        name=f"host.{verb}",
        method=HttpMethod.POST,
        path=f"/hosts:{verb}",
        permission=Permission.HOST_WRITE,
        summary=summary,
        asks=asks,
        answers=ItemList[HostItem],
        kind="HostList",
        work=work,
    )


LIST_HOSTS = Endpoint(
    name="host.list",
    method=HttpMethod.GET,
    path="/hosts",
    permission=Permission.HOST_READ,
    summary="Hosts.",
    asks=HostFilter,
    answers=ItemList[HostItem],
    kind="HostList",
    work=list_hosts,
    scoped=True,
)
SHOW_HOST = Endpoint(
    name="host.show",
    method=HttpMethod.GET,
    path="/hosts/{name}",
    permission=Permission.HOST_READ,
    summary="One host.",
    asks=OneHost,
    answers=HostItem,
    kind="Host",
    tag=host_tag,
    work=show_host,
    scoped=True,
)
PROBE_HOSTS = Endpoint(
    name="host.probe",
    method=HttpMethod.POST,
    path="/hosts:probe",
    permission=Permission.HOST_PROBE,
    summary="Probe hosts, and keep what was seen.",
    asks=ProbeRequest,
    answers=ProbeAnswer,
    kind="Probe",
    work=probe_hosts,
    runs=Runs.WORKER,
)
CORDON_HOSTS = _bulk("cordon", NamedHosts, cordon_hosts, "Place no VM on hosts any more.")
UNCORDON_HOSTS = _bulk(
    "uncordon", NamedHosts, uncordon_hosts, "Place VMs on hosts again; a drain of them ends."
)
SET_HOSTS = _bulk("set", HostSettings, set_hosts, "Change a setting of hosts.")
SET_LABELS = Endpoint(
    name="host.set-labels",
    method=HttpMethod.PUT,
    path="/hosts/{name}/labels",
    permission=Permission.HOST_WRITE,
    summary="Replace the labels of a host.",
    asks=NewLabels,
    answers=HostItem,
    kind="Host",
    tag=host_tag,
    work=set_labels,
)
SET_MIGRATION = Endpoint(
    name="host.set-migration",
    method=HttpMethod.PUT,
    path="/hosts/{name}/migration",
    permission=Permission.HOST_WRITE,
    summary="Accept live migrations on a host.",
    asks=NewMigrationAddress,
    answers=HostItem,
    kind="Host",
    tag=host_tag,
    work=set_migration,
)
REMOVE_MIGRATION = Endpoint(
    name="host.remove-migration",
    method=HttpMethod.DELETE,
    path="/hosts/{name}/migration",
    permission=Permission.HOST_WRITE,
    summary="Accept no live migrations on a host any more.",
    asks=OneHost,
    answers=HostItem,
    kind="Host",
    tag=host_tag,
    work=remove_migration,
)

ENDPOINTS = (
    LIST_HOSTS,
    SHOW_HOST,
    PROBE_HOSTS,
    CORDON_HOSTS,
    UNCORDON_HOSTS,
    SET_HOSTS,
    SET_LABELS,
    SET_MIGRATION,
    REMOVE_MIGRATION,
)
