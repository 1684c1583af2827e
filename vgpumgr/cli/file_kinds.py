"""What a file holds beside what a command is for: named with its line, never dropped unsaid."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from vgpumgr.cli.files import source_name
from vgpumgr.model.errors import UsageError
from vgpumgr.model.words import spanned

if TYPE_CHECKING:
    from vgpumgr.cli.context import Context
    from vgpumgr.model.host import HostRecord
    from vgpumgr.spec import Documents

# What of a host an operator changes by commands: a file does not put it back.
_COMPARED = (
    "address",
    "labels",
    "cpu_overcommit",
    "reserved_memory_mib",
    "accelerator",
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
