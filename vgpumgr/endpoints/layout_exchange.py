"""The endpoints of layout files: GPUs as they are written down, and other tools' files read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import Source, Text, source_name
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.hosts import HostNames
from vgpumgr.endpoints.refreshed import unread_error
from vgpumgr.model.errors import UsageError

if TYPE_CHECKING:
    from vgpumgr.model.gpu import GpuFacts
    from vgpumgr.model.layout import LayoutSpec

OURS = "vgpumgr"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutExport:
    """These hosts (none named: all), as documents of ours or as the file of another tool."""

    hosts: HostNames = ()
    format: Literal["vgpumgr", "mig-parted", "vgpu-device-manager"] = "vgpumgr"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutImport:
    """The ``text`` of another tool's file, in ``format`` (null: told by its keys), of which one
    ``configuration`` is taken, for these hosts. ``source`` is its name in messages.
    """

    text: Text
    source: Source = "FILE"
    format: Literal["mig-parted", "vgpu-device-manager"] | None = None
    configuration: str = ""
    hosts: HostNames = ()


class LayoutFile(TypedDict):
    """Documents of ours, or the ``text`` of another tool's file; ``left_out`` are sentences on what
    the other side has no words for.
    """

    documents: list[dict[str, Any]]
    text: str
    left_out: list[str]


def export_layouts(context: CallContext, asked: LayoutExport) -> Result[LayoutFile]:
    """Probe, and write down how GPUs are partitioned."""
    context.app.require_hosts()
    found = context.app.engine.layout_export(asked.hosts)
    ledger = context.app.ledger
    records = [each for each in ledger.hosts() if not asked.hosts or each.name in asked.hosts]
    item = _ours(found) if asked.format == OURS else _foreign(context, asked.format, found)
    unread = tuple(f"{host.name}: {host.last_error}" for host in records if host.last_error)
    return Result(answer=item, error=unread_error(unread))


def _ours(layouts: Sequence[LayoutSpec]) -> LayoutFile:
    from vgpumgr.spec import layout_document

    documents = [layout_document(each) for each in layouts]
    return {"documents": documents, "text": "", "left_out": []}


def _foreign(context: CallContext, tool: str, layouts: Sequence[LayoutSpec]) -> LayoutFile:
    from vgpumgr.spec import foreign

    by_host: dict[str, list[GpuFacts]] = {}
    for gpu in context.app.ledger.gpus():
        by_host.setdefault(gpu.host, []).append(gpu.facts)
    written = foreign.write(tool, layouts, by_host)
    return {"documents": [], "text": written.text, "left_out": list(written.left_out)}


def import_layouts(context: CallContext, asked: LayoutImport) -> Result[LayoutFile]:
    """The layout of one configuration; UsageError when there is nothing of a layout in it."""
    from vgpumgr.spec import foreign

    ledger, source = context.app.ledger, source_name(asked.source)
    named = [gpu for name in asked.hosts for gpu in ledger.gpus(ledger.host(name).name)]
    gpus = [gpu.facts for gpu in (named if asked.hosts else ledger.gpus())]
    reader: Any = foreign.FORMATS[asked.format] if asked.format else foreign
    here = gpus if len(asked.hosts) == 1 else ()
    found = reader.read(asked.text, source, asked.configuration, here, gpus)
    if found.layout is None:
        raise UsageError(f"{source} holds no layout", why="; ".join(found.left_out))
    item = _ours([replace(found.layout, hosts=tuple(asked.hosts))])
    return Result(answer={**item, "left_out": list(found.left_out)})


EXPORT_LAYOUTS = Endpoint(
    name="layout.export",
    method=HttpMethod.GET,
    path="/layouts/export",
    permission=Permission.LAYOUT_READ,
    summary="How hosts are partitioned now, as documents or another tool's file.",
    asks=LayoutExport,
    answers=LayoutFile,
    kind="LayoutFile",
    work=export_layouts,
    runs=Runs.WORKER,
)
IMPORT_LAYOUTS = Endpoint(
    name="layout.import",
    method=HttpMethod.POST,
    path="/layouts:import",
    permission=Permission.LAYOUT_READ,
    summary="Another tool's file as a layout; nothing is changed.",
    asks=LayoutImport,
    answers=LayoutFile,
    kind="LayoutFile",
    work=import_layouts,
)

ENDPOINTS = (EXPORT_LAYOUTS, IMPORT_LAYOUTS)
