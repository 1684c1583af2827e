"""Layout files: ours, and those of mig-parted and vgpu-device-manager."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vgpumgr import API_VERSION
from vgpumgr.cli.output import chosen_format, print_list, say
from vgpumgr.cli.terminal import echo
from vgpumgr.cli.user_files import read_file, source_name
from vgpumgr.model.errors import UsageError
from vgpumgr.model.gpu import GpuFacts, GpuRecord
from vgpumgr.model.layout import LayoutSpec

if TYPE_CHECKING:
    from vgpumgr.cli.command_context import Context


def print_ours(layouts: Sequence[LayoutSpec]) -> None:
    """Documents that ``layout apply -f -`` reads; with ``-o json`` a list of them."""
    import yaml

    from vgpumgr.spec import layout_document

    documents = [layout_document(each) for each in layouts]
    if chosen_format().name in {"json", "name"}:
        print_list("Layout", documents, ())
    elif documents:
        echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)
    else:
        say("nothing to export: no GPU can be partitioned")


def print_foreign(tool: str, layouts: Sequence[LayoutSpec], gpus: Sequence[GpuRecord]) -> None:
    """Another tool's file; what it has no words for goes to stderr."""
    from vgpumgr.spec import foreign

    by_host: dict[str, list[GpuFacts]] = {}
    for gpu in gpus:
        by_host.setdefault(gpu.host, []).append(gpu.facts)
    written = foreign.write(tool, layouts, by_host)
    _say_left_out(written.left_out)
    echo(written.text, nl=False)


def from_foreign(
    context: Context, file: str, tool: str | None, config: str, hosts: Sequence[str]
) -> LayoutSpec:
    """The layout of one configuration; UsageError when there is nothing of a layout in it."""
    from vgpumgr.spec import foreign

    ledger = context.app.ledger
    named = [gpu for name in hosts for gpu in ledger.gpus(_known(context, name))]
    gpus = [gpu.facts for gpu in (named if hosts else ledger.gpus())]
    reader: Any = foreign.FORMATS[tool] if tool else foreign
    here = gpus if len(hosts) == 1 else ()
    found = reader.read(read_file(file), source_name(file), config, here, gpus)
    _say_left_out(found.left_out)
    layout: LayoutSpec | None = found.layout
    if layout is None:
        raise UsageError(f"{source_name(file)} holds no layout", why="; ".join(found.left_out))
    if not hosts:
        say(f"it names no host: add hosts: or host_labels: ({API_VERSION}), or give --host")
    return replace(layout, hosts=tuple(hosts))


def _known(context: Context, name: str) -> str:
    return context.app.ledger.host(name).name


def _say_left_out(sentences: Sequence[str]) -> None:
    for each in sentences:
        say(f"note: {each}")
