"""The command `adopt`: domains that others defined, taken under management or refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, print_item, say
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.views.layout_views import layout_plan_text
from vgpumgr.cli.views.outcome_views import print_outcome_result
from vgpumgr.cli.views.reports import print_report, report_lines
from vgpumgr.endpoints import adoptions
from vgpumgr.endpoints import hosts as host_endpoints
from vgpumgr.endpoints.layout_exchange import EXPORT_LAYOUTS, LayoutExport
from vgpumgr.model.errors import Conflict, UsageError
from vgpumgr.model.formats import counted

COLUMNS = (
    Column("HOST", "host"),
    Column("DOMAIN", "domain"),
    Column("POWER", "power"),
    Column("GPUS", "gpus"),
    Column("ADOPT", "possible"),
    Column("WHY", "why", wide=True),
    Column("NOTES", "notes", wide=True),
)


def print_adoptable(found: adoptions.AdoptableList) -> None:
    """A table of domains, then what no domain names; every line with what helps."""
    aside = {key: value for key, value in found.items() if key != "items"}
    text = "\n".join(_lines(found))
    print_report("Adoptable", found["items"], COLUMNS, beside=aside, text=text)


def _below(item: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"cannot: {why}" for why in item["why"])
    yield from (f"note: {note}" for note in item["notes"])
    if item["possible"]:
        yield f"next: vgpumgr adopt {item['host']} --vm {item['domain']} --apply"


def _lines(found: adoptions.AdoptableList) -> Iterator[str]:
    yield from report_lines(found["items"], COLUMNS, _below)
    for each in found["loose"]:
        yield f"{each['host']}  {each['text']}"
        yield f"    next: {each['next']}"
    yield from (f"not read  {line}" for line in found["not_read"])
    if not found["items"] and not found["loose"]:
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
    if not (vms or all_ or layout or apply_):
        found = context.read(adoptions.LIST_ADOPTABLE, adoptions.AdoptableFilter(hosts=hosts))
        print_adoptable(found.answer)
        finish(found)
        return
    host = _one_host(hosts, vms=vms, all_=all_, layout=layout)
    if layout:
        _layout(context, host, apply_=apply_)
    else:
        _domains(context, host, vms, all_=all_, tenant=tenant, apply_=apply_)


def _one_host(hosts: Sequence[str], *, vms: Sequence[str], all_: bool, layout: bool) -> str:
    if sum(map(bool, (vms, all_, layout))) != 1:
        raise UsageError("nothing named to adopt: give one of --vm, --all and --layout")
    if len(hosts) != 1:
        raise UsageError("no host named", next="vgpumgr adopt HOST …")
    return hosts[0]


def _domains(
    context: Context, host: str, vms: Sequence[str], *, all_: bool, tenant: str, apply_: bool
) -> None:
    names = tuple(dict.fromkeys(vms))
    if all_ or not apply_:
        found = context.read(adoptions.LIST_ADOPTABLE, adoptions.AdoptableFilter(hosts=(host,)))
        finish(found)
        items = found.answer["items"]
        names = names or tuple(each["domain"] for each in items if each["possible"])
        if not apply_:
            _show(found.answer, host, names)
            return
    if not names:
        say("nothing to adopt")
        return
    asked = adoptions.AdoptionRequest(host=host, vms=names, tenant=tenant)
    print_outcome_result(carry_out(context, adoptions.ADOPT_DOMAINS, asked))


def _show(found: adoptions.AdoptableList, host: str, names: Sequence[str]) -> None:
    """What would be adopted; exit 4 where one cannot be."""
    chosen = [each for each in found["items"] if each["domain"] in names]
    missing = sorted(set(names) - {each["domain"] for each in chosen})
    if missing:
        raise UsageError(f"{host} has no foreign domain {missing[0]}", next=f"vgpumgr adopt {host}")
    print_adoptable({**found, "items": chosen, "loose": []})
    stuck = [each["domain"] for each in chosen if not each["possible"]]
    if stuck:
        raise Conflict(f"{counted(len(stuck), 'domain')} cannot be adopted: {', '.join(stuck)}")


def _layout(context: Context, host: str, *, apply_: bool) -> None:
    if not apply_:
        from vgpumgr.cli.layout_files import print_ours

        print_ours(context.read(EXPORT_LAYOUTS, LayoutExport(hosts=(host,))).answer["documents"])
        say(f"this is what would be recorded: vgpumgr adopt {host} --layout --apply")
        return
    done = context.act(adoptions.ADOPT_LAYOUT, host_endpoints.OneHost(name=host))
    print_item("LayoutAdopt", done.answer, layout_plan_text(done.answer))
    finish(done)
