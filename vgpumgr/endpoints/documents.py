"""YAML documents that a caller sends as text: read, and refused where a request uses them not."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from vgpumgr.endpoints.endpoint import ParameterLimits
from vgpumgr.model.errors import PoolsInFile, UsageError
from vgpumgr.model.formats import spanned
from vgpumgr.model.vm import VmSpec

if TYPE_CHECKING:
    from vgpumgr.access.permission import Permission
    from vgpumgr.endpoints.call_context import CallContext
    from vgpumgr.model.host import HostRecord
    from vgpumgr.model.ledger import Ledger
    from vgpumgr.spec import Documents

MAX_TEXT = (1 << 20) + 1
"""One more than the loader takes: it is the loader that refuses what is longer."""
STDIN = "-"
Text = Annotated[str, ParameterLimits(max_length=MAX_TEXT)]
Source = Annotated[str, ParameterLimits(min_length=1, max_length=4096)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentText:
    """YAML documents: their ``text``, and the ``source`` that messages name (``-`` is standard
    input). No file is opened by it.
    """

    text: Text
    source: Source = "FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfFile(DocumentText):
    """Documents of which one kind is asked for. ``mixed``: the text may have documents of other
    kinds, for which others are asked; without it they are refused.
    """

    mixed: bool = False


def source_name(source: str) -> str:
    """What messages call the source of a text."""
    return "standard input" if source == STDIN else source


def typed_source(source: str) -> str:
    """``-f FILE`` as it is typed."""
    return f"-f {shlex.quote(source)}"


def documents_of(ledger: Ledger, asked: DocumentText) -> Documents:
    """The documents of a text; SpecError with every fault of it."""
    text = asked.text.encode(errors="surrogatepass")
    return with_grown(checked(ledger, text, source_name(asked.source)), ledger)


def with_grown(documents: Documents, ledger: Ledger) -> Documents:
    """The documents with the replicas, up to ``max``, that there are because of their load."""
    scaled = {(vm.scale.group, vm.tenant): vm for vm in documents.vms if vm.scale is not None}
    if not scaled:
        return documents
    asked = {vm.name for vm in documents.vms}
    grown = [
        replace(like, name=vm.name)
        for vm in ledger.vms()
        if vm.spec.scale is not None
        and vm.name not in asked
        and (like := scaled.get((vm.spec.scale.group, vm.spec.tenant))) is not None
        and like.scale is not None
        and 0 < like.scale.number(vm.name) <= like.scale.most
    ]
    return replace(documents, vms=(*documents.vms, *grown))


def checked(ledger: Ledger, text: bytes, source: str) -> Documents:
    """The documents of a text. The fleet's own profiles are read only when something is amiss:
    the catalogue knows most names, and a large fleet takes its time.
    """
    from vgpumgr.engine.inventory.observation import learned_profiles
    from vgpumgr.spec import SpecError, load

    flavours = ledger.flavours() if b"flavour" in text else ()
    try:
        return load(text, source, flavours=flavours)
    except SpecError:
        return load(text, source, learned_profiles(ledger), flavours)


def vm_documents(
    context: CallContext, asked: PartOfFile, *, hosts: Permission, layouts: Permission
) -> Documents:
    """Documents of the caller's VMs, and of layouts and enrolled hosts, which need those
    permissions; PoolsInFile where there are pools, unless the file is mixed.
    """
    from vgpumgr.endpoints.own_documents import own_documents

    ledger = context.app.ledger
    documents = documents_of(ledger, asked)
    if not asked.mixed:
        refuse_pools(documents, asked.source)
    own = own_documents(context, documents, hosts=hosts, layouts=layouts)
    require_no_strangers(ledger, own, asked.source)
    return own


def pool_documents(context: CallContext, asked: PartOfFile, *, hosts: Permission) -> Documents:
    """Documents of the caller's pools, and of enrolled hosts, which need that permission;
    UsageError where there are VMs or layouts, unless the file is mixed.
    """
    from vgpumgr.endpoints.own_documents import own_documents

    ledger = context.app.ledger
    documents = documents_of(ledger, asked)
    if not asked.mixed:
        require_one_way(documents, asked.source)
    own = own_documents(context, documents, hosts=hosts)
    require_no_strangers(ledger, own, asked.source)
    return own


def vms_of(documents: Documents, source: str) -> tuple[VmSpec, ...]:
    """The VMs among documents; UsageError when there are none."""
    if documents.vms:
        return documents.vms
    raise UsageError(
        f"{source_name(source)} names no VM",
        next=f"vgpumgr layout plan {typed_source(source)}"
        if documents.layouts
        else "add a document with kind: VM",
    )


# What of a host an operator changes by commands: a file does not put it back.
_COMPARED = (
    "address",
    "labels",
    "cpu_overcommit",
    "reserved_memory_mib",
    "accelerator",
    "layout",
    "migration",
    "fence",
)


def require_no_strangers(ledger: Ledger, documents: Documents, source: str) -> None:
    """UsageError for a simulated fleet among them, and for a host that is not enrolled as it is
    written there.
    """
    for host in new_hosts(ledger, documents, source):
        raise UsageError(
            f"{_where(documents, 'Host', host.name, source)} is not enrolled",
            why="VMs are made on hosts of the fleet",
            next=f"vgpumgr host add {typed_source(source)}, then the same command again",
        )


def new_hosts(ledger: Ledger, documents: Documents, source: str) -> tuple[HostRecord, ...]:
    """The hosts among them that are not enrolled. UsageError for a simulated fleet, and for a host
    that is enrolled otherwise.
    """
    for fleet in documents.fleets:
        raise UsageError(
            f"{_where(documents, 'Fleet', fleet.name, source)} is a simulated fleet",
            why="this command is about hosts, layouts, VMs and pools",
            next=f"vgpumgr sim up {typed_source(source)}",
        )
    known = {host.name: host for host in ledger.hosts()} if documents.hosts else {}
    for host in documents.hosts:
        differs = _differences(host, known[host.name]) if host.name in known else []
        if differs:
            where = _where(documents, "Host", host.name, source)
            raise UsageError(
                f"{where} is enrolled otherwise: {', '.join(differs)}",
                why="a host that is enrolled is not changed from a file",
                next=f"vgpumgr host show {host.name}, and write what it is; or vgpumgr host remove "
                f"{host.name}, then vgpumgr host add {typed_source(source)}",
            )
    return tuple(host for host in documents.hosts if host.name not in known)


def what_stays(documents: Documents) -> str:
    """The documents that `delete -f` leaves as they are; empty where none."""
    hosts = [host.name for host in documents.hosts]
    said = [f"{spanned(hosts)} (vgpumgr host remove)"] if hosts else []
    layouts = [layout.name for layout in documents.layouts]
    said += [f"{spanned(layouts)} (GPUs stay partitioned)"] if layouts else []
    flavours = [each.name for each in documents.flavours]
    said += [f"{spanned(flavours)} (vgpumgr flavour delete)"] if flavours else []
    budgets = [each.name for each in documents.budgets]
    said += [f"{spanned(budgets)} (vgpumgr power remove)"] if budgets else []
    fleets = [fleet.name for fleet in documents.fleets]
    said += [f"{spanned(fleets)} (vgpumgr sim down)"] if fleets else []
    return ", ".join(said)


def refuse_pools(documents: Documents, source: str) -> None:
    """PoolsInFile where there are some."""
    if documents.pools:
        raise PoolsInFile(
            f"{_where(documents, 'Pool', documents.pools[0].name, source)} is a pool",
            why="pools are planned, applied and deleted by themselves",
            next="the same of pools, not of VMs",
        )


def require_one_way(documents: Documents, source: str) -> None:
    """UsageError for VMs or layouts among pools, with a name and a line of each."""
    vms = [("VM", vm.name) for vm in documents.vms[:1]]
    others = [*vms, *(("Layout", layout.name) for layout in documents.layouts[:1])]
    if documents.pools and others:
        pool = _where(documents, "Pool", documents.pools[0].name, source)
        kind, name = others[0]
        raise UsageError(
            f"{pool} and {kind} {name} (line {documents.lines[others[0]]}) are in one file",
            why="VMs are created at once, the desktops of pools by serve",
            next="vgpumgr apply, which works all kinds of a file; over HTTP the same with `mixed`",
        )


def _where(documents: Documents, kind: str, name: str, source: str) -> str:
    line, number = documents.lines[kind, name], documents.numbers[kind, name]
    where = f"document {number}, line {line}" if number else f"line {line}"
    return f"{source_name(source)}: {kind} {name} ({where})"


def _differences(written: HostRecord, enrolled: HostRecord) -> list[str]:
    return [key for key in _COMPARED if getattr(written, key) != getattr(enrolled, key)]
