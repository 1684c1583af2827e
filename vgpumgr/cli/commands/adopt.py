"""The command `adopt`: domains that others defined, taken under management or refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import require_all_read
from vgpumgr.cli.output import Column, list_options, print_item, say
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.views.layout_views import layout_plan_text
from vgpumgr.cli.views.outcome_views import print_outcome
from vgpumgr.cli.views.reports import print_report, report_lines
from vgpumgr.endpoints.layout_items import layout_plan_item
from vgpumgr.endpoints.outcomes import outcome_item
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import Conflict, UsageError
from vgpumgr.model.formats import counted

if TYPE_CHECKING:
    from vgpumgr.engine.adoption.candidate import AdoptionCandidate, AdoptionFindings


COLUMNS = (
    Column("HOST", "host"),
    Column("DOMAIN", "domain"),
    Column("POWER", "power"),
    Column("GPUS", "gpus"),
    Column("ADOPT", "possible"),
    Column("WHY", "why", wide=True),
    Column("NOTES", "notes", wide=True),
)


def print_adoptable(found: AdoptionFindings) -> None:
    """A table of domains, then what no domain names; every line with what helps."""
    items = [candidate_item(each) for each in found.candidates]
    loose = [to_plain(each) for each in found.loose]
    beside = {"loose": loose, "not_read": list(found.not_read)}
    text = "\n".join(_lines(found, items))
    print_report("Adoptable", items, COLUMNS, beside=beside, text=text)


def candidate_item(found: AdoptionCandidate) -> dict[str, Any]:
    """The JSON of one domain; ``vm`` is the document of the VM that it would be."""
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


def _below(item: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"cannot: {why}" for why in item["why"])
    yield from (f"note: {note}" for note in item["notes"])
    if item["possible"]:
        yield f"next: vgpumgr adopt {item['host']} --vm {item['domain']} --apply"


def _lines(found: AdoptionFindings, items: list[dict[str, Any]]) -> Iterator[str]:
    yield from report_lines(items, COLUMNS, _below)
    for each in found.loose:
        yield f"{each.host}  {each.text}"
        yield f"    next: {each.next}"
    yield from (f"not read  {line}" for line in found.not_read)
    if not items and not found.loose:
        yield "nothing to adopt"


@click.command()
@click.argument("hosts", nargs=-1, shell_complete=completed("hosts"))
@click.option(
    "--vm", "vms", multiple=True, metavar="NAME", help="Adopt this domain; may be repeated."
)
@click.option(
    "--all", "all_", is_flag=True, help="Adopt every domain of the host that can be adopted."
)
@click.option("--layout", is_flag=True, help="Adopt the host's GPU partitioning as a layout.")
@click.option("--tenant", default="default", show_default=True, help="Tenant of the VMs.")
@click.option(
    "--apply", "apply_", is_flag=True, help="Carry the plan out; without it, only show the plan."
)
@list_options
@pass_context
def adopt(
    context: Context,
    hosts: tuple[str, ...],
    vms: tuple[str, ...],
    all_: bool,
    layout: bool,
    tenant: str,
    apply_: bool,
) -> None:
    """List unmanaged domains and partitioning on these hosts (default: all), or adopt them.

    Adopting claims the GPU parts of a domain on its host and marks the domain as managed. Neither
    is touched: a running VM keeps running, with its own definition and disks.
    """
    context.app.require_hosts()
    known = [context.app.ledger.host(name).name for name in hosts]
    if not (vms or all_ or layout or apply_):
        found = context.app.engine.adoptable(known)
        print_adoptable(found)
        require_all_read(found.not_read)
        return
    host = _one_host(known, vms=vms, all_=all_, layout=layout)
    if layout:
        _layout(context, host, apply_=apply_)
    else:
        _domains(context, host, vms, all_=all_, tenant=tenant, apply_=apply_)


def _one_host(known: Sequence[str], *, vms: Sequence[str], all_: bool, layout: bool) -> str:
    if sum(map(bool, (vms, all_, layout))) != 1:
        raise UsageError("nothing named to adopt: give one of --vm, --all and --layout")
    if len(known) != 1:
        raise UsageError("no host named", next="vgpumgr adopt HOST …")
    return known[0]


def _domains(
    context: Context, host: str, vms: Sequence[str], *, all_: bool, tenant: str, apply_: bool
) -> None:
    names = tuple(dict.fromkeys(vms))
    if all_ or not apply_:
        found = context.app.engine.adoptable([host])
        require_all_read(found.not_read)
        names = names or tuple(each.name for each in found.candidates if each.possible)
    if not apply_:
        _show(found, host, names)
        return
    if not names:
        say("nothing to adopt")
        return
    with changing(context, len(names)) as engine:
        outcome = engine.adopt(host, names, tenant=tenant)
    print_outcome(outcome)


def _show(found: AdoptionFindings, host: str, names: Sequence[str]) -> None:
    """What would be adopted; exit 4 where one cannot be."""
    chosen = tuple(each for each in found.candidates if each.name in names)
    missing = sorted(set(names) - {each.name for each in chosen})
    if missing:
        raise UsageError(f"{host} has no foreign domain {missing[0]}", next=f"vgpumgr adopt {host}")
    print_adoptable(replace(found, candidates=chosen, loose=()))
    stuck = [each.name for each in chosen if not each.possible]
    if stuck:
        raise Conflict(f"{counted(len(stuck), 'domain')} cannot be adopted: {', '.join(stuck)}")


def _layout(context: Context, host: str, *, apply_: bool) -> None:
    if not apply_:
        from vgpumgr.cli.layout_files import print_ours

        print_ours(context.app.engine.layout_export([host]))
        say(f"this is what would be recorded: vgpumgr adopt {host} --layout --apply")
        return
    done, outcome = context.app.engine.adopt_layout(host)
    item = {**layout_plan_item(done), **outcome_item(outcome)}
    print_item("LayoutAdopt", item, layout_plan_text(layout_plan_item(done)))
    outcome.raise_for_failure()
