"""The commands `takeover plan` and `takeover apply`: VMs of other managers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import chosen_format, list_options, output_option, print_item, say
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.takeover_files import (
    ENDINGS,
    descriptions,
    fetched_disks,
    mapping_text,
    with_disks,
)
from vgpumgr.cli.takeover_run import (
    AGAIN,
    ReadyVm,
    TakenItem,
    finish_cut,
    largest_first,
    places,
    take_over,
)
from vgpumgr.cli.terminal import confirm, echo
from vgpumgr.cli.views.takeover_views import print_takeover, taken_text
from vgpumgr.endpoints.takeovers import PLAN_TAKEOVER, TakeoverItem, TakeoverSources
from vgpumgr.model.errors import Conflict, NotFound, PartlyDone, UsageError
from vgpumgr.model.formats import counted, size_words, spanned

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverAsked:
    """The files and choices that both commands share."""

    paths: tuple[str, ...]
    manager: str
    gpus: tuple[str, ...]
    bridges: tuple[str, ...]
    mappings: str | None
    pool: str
    tenant: str
    only: tuple[str, ...]
    disks: tuple[str, ...]

    def sources(self) -> TakeoverSources:
        """The descriptions as the endpoint takes them."""
        found = descriptions(self.paths, self.manager)
        return TakeoverSources(
            manager=cast("Any", self.manager),
            names=tuple(name for name, _ in found),
            texts=tuple(text for _, text in found),
            gpus=self.gpus,
            bridges=self.bridges,
            mappings=mapping_text(self.paths, self.mappings) if self.manager == "proxmox" else "",
            pool=self.pool,
            tenant=self.tenant,
        )

    def chosen(self, items: Sequence[TakeoverItem]) -> list[TakeoverItem]:
        """The VMs that are asked for; NotFound for a name that is none of theirs."""
        known = {each["name"] for each in items}
        if unknown := [each for each in self.only if each not in known]:
            raise NotFound(
                f"no description is of a VM {unknown[0]}",
                why=f"there are {spanned(sorted(known))}",
                next="--vm with one of these names",
            )
        return [each for each in items if not self.only or each["name"] in self.only]


def _shared(command: F) -> F:
    """The arguments of both commands, as one ``asked``."""

    def run(context: Context, /, **given: Any) -> Any:
        own = {key: given.pop(key) for key in tuple(given) if key not in _FIELDS}
        return command(context, asked=TakeoverAsked(**given), **own)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    wrapped: Any = run
    wrapped.__click_params__ = getattr(command, "__click_params__", [])
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast("F", wrapped)


_FIELDS = frozenset(TakeoverAsked.__dataclass_fields__)
_OPTIONS = (
    click.argument(
        "paths", nargs=-1, required=True, metavar="FILE…", type=click.Path(allow_dash=True)
    ),
    click.option(
        "--from", "manager", required=True, type=click.Choice(tuple(ENDINGS)),
        help="The manager that wrote the descriptions; it is never guessed.",
    ),
    click.option(
        "--gpu", "gpus", multiple=True, metavar="THERE=HERE",
        help="What an mdev type, address or mapping of the source is: a profile, a board, none.",
    ),
    click.option(
        "--bridge", "bridges", multiple=True, metavar="THERE=HERE",
        help="The bridge (or network:NAME) in place of one of the source; may be repeated.",
    ),
    click.option(
        "--mappings", metavar="FILE", type=click.Path(),
        help="Proxmox's resource mappings, /etc/pve/mapping/pci.cfg.",
    ),
    click.option("--pool", default="default", show_default=True, help="The disks' storage pool."),
    click.option("--tenant", default="default", show_default=True, help="Tenant of the VMs."),
    click.option(
        "--vm", "only", multiple=True, metavar="NAME", help="Only this VM; may be repeated."
    ),
    click.option(
        "--disks", "disks", multiple=True, metavar="FOLDER", type=click.Path(),
        help="Folder with the files of the disks; may be repeated.",
    ),
)  # fmt: skip


@click.group()
def takeover() -> None:
    """VMs of other managers, brought into the fleet: plan, apply."""


@takeover.command()
@click.option("--every-key", is_flag=True, help="Show the keys that are kept, too.")
@list_options
@pass_context
@_shared
def plan(context: Context, asked: TakeoverAsked, every_key: bool) -> None:
    """Show what would become of VMs of another manager, and of every key of theirs.

    FILE is a description (qm config or /etc/pve/qemu-server/ID.conf, an OVF or OVA, virsh dumpxml)
    or a folder with some; - reads standard input. With -o yaml it prints documents that `apply`
    takes once the images are imported. Nothing is changed.

    \b
    vgpumgr takeover plan --from proxmox /etc/pve/qemu-server
    qm config 101 | vgpumgr takeover plan --from proxmox - --gpu nvidia-562=A40-8Q
    """
    found = context.read(PLAN_TAKEOVER, asked.sources())
    items = asked.chosen(found.answer["items"])
    if chosen_format().name == "yaml":
        _print_documents(items, asked.disks)
    else:
        print_takeover(items, every_key=every_key)
    if any(each["problems"] for each in items):
        finish(found)


def _print_documents(items: Sequence[TakeoverItem], folders: Sequence[str]) -> None:
    import yaml

    documents = []
    for each in items:
        if each["vm"] is None or each["problems"]:
            why = "is there already" if each["there"] else "is left out"
            say(f"{each['name']} {why}")
        else:
            disks = fetched_disks(each, folders) if folders else ()
            documents.append(with_disks(each["vm"], disks) if folders else each["vm"])
    if documents:
        echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)


@takeover.command()
@click.option("--partial", is_flag=True, help="Leave out what cannot come, or has no room.")
@click.option("--dry-run", is_flag=True, help="Show where each VM would go, and stop.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
@_shared
def apply(context: Context, asked: TakeoverAsked, partial: bool, dry_run: bool, yes: bool) -> None:
    """Make VMs of ours out of VMs of another manager, with copies of their disks, and start them.

    Every disk is a file in --disks, fetched from the source while its guest was off: `takeover
    plan` prints the commands. MAC addresses and UUIDs are kept. The guest on the source has to
    stay off. Running it again goes on; a VM that was taken over is left as it is.
    """
    items = asked.chosen(context.read(PLAN_TAKEOVER, asked.sources()).answer["items"])
    known = [each for each in items if each["there"]]
    ready = largest_first(_ready(items, asked.disks, partial=partial))
    found = places(context, ready)
    if not partial:
        found.require_room()
    for name, why in found.unplaced.items():
        say(f"left out: {name} would find no room: {why}")
    ready = [each for each in ready if each.item["name"] in found.hosts]
    if dry_run:
        there = [_item(each["name"], "there") for each in known]
        _print([*there, *(_planned(each, found.hosts) for each in ready)])
        return
    if ready:
        size = sum(disk.virtual_bytes for each in ready for disk in each.disks)
        what = f"{counted(len(ready), 'VM')} with disks of {size_words(size)}"
        confirm(yes=yes)(f"take over {what}? Their guests must be off on the source, and stay off")
    before = [finish_cut(context, each) for each in known]
    done = take_over(context, ready, found.hosts)
    _print([*before, *done])
    failed = [each["name"] for each in done if each["state"] == "failed"]
    if failed:
        raise PartlyDone(
            f"{len(failed)} of {len(done)} VMs are not taken over: {', '.join(failed[:5])}",
            next=AGAIN,
        )


def _print(items: Sequence[TakenItem]) -> None:
    print_item("Takeover", {"name": "takeover", "items": list(items)}, taken_text(items))


def _item(name: str, state: str) -> TakenItem:
    return {"name": name, "state": state, "host": "", "disks": 0, "error": ""}


def _planned(ready: ReadyVm, hosts: Mapping[str, str]) -> TakenItem:
    name = ready.item["name"]
    return {**_item(name, "planned"), "host": hosts[name], "disks": len(ready.disks)}


def _ready(
    items: Sequence[TakeoverItem], folders: Sequence[str], *, partial: bool
) -> list[ReadyVm]:
    """The VMs whose disks are here; the first thing that is wrong is raised, or said."""
    found = []
    for each in items:
        if each["there"]:
            continue
        try:
            found.append(_with_files(each, folders))
        except (Conflict, NotFound, UsageError) as error:
            if not partial:
                raise
            say(f"left out: {error}")
    return found


def _with_files(item: TakeoverItem, folders: Sequence[str]) -> ReadyVm:
    if item["problems"] or item["vm"] is None:
        raise Conflict(
            f"{item['name']} cannot be taken over as it is",
            why="; ".join(item["problems"]),
            next="correct it there, say what is asked for, or leave it out with --partial",
        )
    return ReadyVm(item=item, disks=fetched_disks(item, folders))
