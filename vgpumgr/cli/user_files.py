"""The user's YAML files: read, and refused where they hold documents a command does not use."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr.endpoints.documents import DocumentText
from vgpumgr.model.errors import NotFound, UsageError
from vgpumgr.model.formats import spanned
from vgpumgr.model.layout import LayoutSpec
from vgpumgr.model.vm import VmSpec

if TYPE_CHECKING:
    from vgpumgr.cli.command_context import Context
    from vgpumgr.model.host import HostRecord
    from vgpumgr.spec import Documents


MAX_BYTES = 1 << 20

file_option = click.option(
    "-f",
    "--file",
    "file",
    required=True,
    metavar="FILE",
    help="YAML file; - reads standard input.",
)


def document_text(file: str) -> DocumentText:
    """A file as endpoints take it; SpecError where it is no UTF-8."""
    data = read_file(file)
    try:
        return DocumentText(text=data.decode(), source=file)
    except UnicodeDecodeError:
        from vgpumgr.spec import load

        load(data, source_name(file))
        raise


def load_documents(context: Context, file: str) -> Documents:
    """Read and check a file; profiles of probed hosts are known beside the catalogue's."""
    return checked(context, read_file(file), source_name(file))


def checked(context: Context, text: bytes, source: str) -> Documents:
    """The documents of a text. The fleet's own profiles are read only when something is amiss:
    the catalogue knows most names, and a large fleet takes its time."""
    from vgpumgr.engine.inventory.observation import learned_profiles
    from vgpumgr.spec import SpecError, load

    try:
        return load(text, source)
    except SpecError:
        return load(text, source, known_profiles=learned_profiles(context.app.ledger))


def load_vms(context: Context, file: str) -> tuple[VmSpec, ...]:
    """The VMs of a file; UsageError when it names none."""
    return vms_of(load_documents(context, file), file)


def vms_of(documents: Documents, file: str) -> tuple[VmSpec, ...]:
    """The VMs among a file's documents; UsageError when there are none."""
    if documents.vms:
        return documents.vms
    raise UsageError(
        f"{source_name(file)} names no VM",
        next=f"vgpumgr layout plan -f {shlex.quote(file)}"
        if documents.layouts
        else "add a document with kind: VM",
    )


def load_layouts(context: Context, file: str) -> tuple[LayoutSpec, ...]:
    """The layouts of a file; UsageError when it holds none."""
    layouts = load_documents(context, file).layouts
    if not layouts:
        raise UsageError(
            f"{source_name(file)} holds no layout", next="add a document with kind: Layout"
        )
    return layouts


def source_name(file: str) -> str:
    """What messages call the file."""
    return "standard input" if file == "-" else file


def read_file(file: str) -> bytes:
    """Its bytes, at most one over the limit: the loader refuses what is too long."""
    if file == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with Path(file).open("rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(
            f"no file {file}", next=f"ls {shlex.quote(str(Path(file).parent))}"
        ) from error
    except OSError as error:
        raise UsageError(f"{file} cannot be read", why=error.strerror or str(error)) from error


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


def require_no_strangers(context: Context, documents: Documents, file: str) -> None:
    """UsageError for a simulated fleet in the file, and for a host that is not enrolled as it is
    written there: VMs are made on hosts, and hosts by `host add`.
    """
    for fleet in documents.fleets:
        raise UsageError(
            f"{_where(documents, 'Fleet', fleet.name, file)} is a simulated fleet",
            why="this command creates VMs, layouts and pools on enrolled hosts",
            next=f"vgpumgr sim up -f {shlex.quote(file)}",
        )
    known = {host.name: host for host in context.app.ledger.hosts()} if documents.hosts else {}
    for host in documents.hosts:
        where = _where(documents, "Host", host.name, file)
        if host.name not in known:
            raise UsageError(
                f"{where} is not enrolled",
                why="hosts of a file are enrolled separately: their keys must be confirmed",
                next=f"vgpumgr host add -f {shlex.quote(file)}, then the same command again",
            )
        differs = _differences(host, known[host.name])
        if differs:
            raise UsageError(
                f"{where} is enrolled otherwise: {', '.join(differs)}",
                why="a host that is enrolled is not changed from a file",
                next=f"vgpumgr host show {host.name}, and write what it is; or vgpumgr host remove "
                f"{host.name}, then vgpumgr host add -f {shlex.quote(file)}",
            )


def what_stays(documents: Documents) -> str:
    """The documents of a file that `delete -f` leaves as they are; empty where none."""
    hosts = [host.name for host in documents.hosts]
    said = [f"{spanned(hosts)} (vgpumgr host remove)"] if hosts else []
    layouts = [layout.name for layout in documents.layouts]
    said += [f"{spanned(layouts)} (GPUs stay partitioned)"] if layouts else []
    fleets = [fleet.name for fleet in documents.fleets]
    said += [f"{spanned(fleets)} (vgpumgr sim down)"] if fleets else []
    return ", ".join(said)


def require_one_way(documents: Documents, file: str) -> None:
    """UsageError for pools beside VMs or layouts, with a name and a line of each."""
    vms = [("VM", vm.name) for vm in documents.vms[:1]]
    beside = [*vms, *(("Layout", layout.name) for layout in documents.layouts[:1])]
    if documents.pools and beside:
        pool = _where(documents, "Pool", documents.pools[0].name, file)
        kind, name = beside[0]
        raise UsageError(
            f"{pool} and {kind} {name} (line {documents.lines[beside[0]]}) are in one file",
            why="VMs are created at once, the desktops of pools by serve",
            next="write the pools into a file of their own, and apply both",
        )


def _where(documents: Documents, kind: str, name: str, file: str) -> str:
    return f"{source_name(file)}: {kind} {name} (line {documents.lines[kind, name]})"


def _differences(written: HostRecord, enrolled: HostRecord) -> list[str]:
    return [key for key in _COMPARED if getattr(written, key) != getattr(enrolled, key)]
