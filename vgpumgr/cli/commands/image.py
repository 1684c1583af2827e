"""The commands `image import`, `list`, `show` and `retire`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.views.ages import age
from vgpumgr.model.desktop import PoolRecord
from vgpumgr.model.errors import InUse, PartlyDone, UsageError
from vgpumgr.model.formats import size_words, spanned
from vgpumgr.model.image import VERSION, CopyState, ImageRecord
from vgpumgr.model.vm import NAME, VmRecord

if TYPE_CHECKING:
    from vgpumgr.engine.images.image_import import ImportReport
    from vgpumgr.engine.images.image_retirement import RetirementReport


def image_item(
    image: ImageRecord, vms: Collection[VmRecord], pools: Collection[PoolRecord]
) -> dict[str, Any]:
    """One image. ``copies`` say by host where it lies, and which VMs use it there."""
    from vgpumgr.engine.images.image_copies import pools_of, users

    return {
        "name": image.reference,
        "image": image.name,
        "version": image.version,
        "state": state_of(image),
        "format": image.format,
        "virtual_bytes": image.virtual_bytes,
        "file_bytes": image.file_bytes,
        "sha256": image.sha256,
        "source": image.source,
        "created_at": image.created_at,
        "retired_at": image.retired_at,
        "volume": image.volume,
        "copies": [
            {
                "host": copy.host,
                "pool": copy.pool,
                "state": str(copy.state),
                "verified_at": copy.verified_at or None,
                "vms": list(users(image, vms, copy)),
            }
            for copy in image.copies
        ],
        "vms": list(users(image, vms)),
        "pools": list(pools_of(image, pools)),
    }


def state_of(image: ImageRecord) -> str:
    """``retired``; ``importing`` while copies come; ``ready``, or ``nowhere`` without a copy."""
    if image.retired_at is not None:
        return "retired"
    states = {copy.state for copy in image.copies}
    if CopyState.IMPORTING in states:
        return "importing"
    return "ready" if CopyState.THERE in states else "nowhere"


def image_text(item: Mapping[str, Any]) -> str:
    """One image for people."""
    return fields(
        [
            ("Image", item["name"]),
            ("State", item["state"]),
            ("Format", item["format"]),
            ("Disk", size_words(item["virtual_bytes"])),
            ("File", f"{size_words(item['file_bytes'])}, from {item['source']}"),
            ("SHA-256", item["sha256"]),
            ("Age", age(item["created_at"])),
            ("Volume", item["volume"]),
            ("Pools", ", ".join(item["pools"])),
            *(("Copy", _copy_text(copy)) for copy in item["copies"]),
        ]
    )


def _copy_text(copy: Mapping[str, Any]) -> str:
    """``gpu1, pool default: there, used by desk-01, desk-02``."""
    vms = copy["vms"]
    used = f", used by {spanned(vms, shown=4)}" if vms else ""
    return f"{copy['host']}, pool {copy['pool']}: {copy['state']}{used}"


COLUMNS = (
    Column("IMAGE", "name"),
    Column("STATE", "state"),
    Column("FORMAT", "format"),
    Column("DISK", lambda item: size_words(item["virtual_bytes"])),
    Column("FILE", lambda item: size_words(item["file_bytes"])),
    Column("HOSTS", lambda item: len({each["host"] for each in item["copies"]})),
    Column("VMS", lambda item: len(item["vms"])),
    Column("POOLS", "pools"),
    Column("AGE", lambda item: age(item["created_at"])),
    Column("SOURCE", "source", wide=True),
    Column("SHA256", lambda item: item["sha256"][:16], wide=True),
    Column("VOLUME", "volume", wide=True),
)


@click.group()
def image() -> None:
    """Disk images in versions: import, list, show, retire."""


def _matching(pattern: str, what: str) -> Any:
    def check(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
        if value is not None and re.fullmatch(pattern, value) is None:
            raise click.BadParameter(f"{value!r} is no {what}")
        return value

    return check


@image.command("import")
@click.argument("file", type=click.Path())
@click.option(
    "--name", required=True, callback=_matching(NAME, "name: small letters, digits and -"),
    help="Name like cad; disks refer to it with its version, like cad@12.",
)  # fmt: skip
@click.option(
    "--version", callback=_matching(VERSION, "version: letters, digits and ._-"),
    help="Default: the version with the same content, or the next number.",
)  # fmt: skip
@click.option(
    "--format", "kind", type=click.Choice(["qcow2", "raw"]), default="qcow2", show_default=True,
    help="Format of the file; it is never guessed.",
)  # fmt: skip
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Only to this host; may be repeated.",
    shell_complete=completed("hosts"),
)
@click.option("--pool", default="default", show_default=True, help="The storage pool.")
@output_option
@pass_context
def import_(
    context: Context,
    /,
    file: str,
    name: str,
    version: str | None,
    kind: str,
    hosts: tuple[str, ...],
    pool: str,
) -> None:
    """Copy a disk image to hosts, as a version that never changes.

    The file is inspected first: one that needs a backing file, is cut off, or is not of the
    declared format is refused. Copies on hosts are compared with it. The same command again
    brings it to hosts that lack it, and resumes an interrupted run.

    \b
    vgpumgr image import cad.qcow2 --name cad
    vgpumgr image import win11.raw --name office --version 24h2 --format raw --host gpu1
    """
    from vgpumgr.engine.images.image_copies import ImageImport

    request = ImageImport(
        path=os.path.abspath(file),  # noqa: PTH100  links stay: the step opens it again
        name=name,
        version=version or "",
        format=kind,
        hosts=tuple(dict.fromkeys(hosts)),
        pool=pool,
        most_bytes=context.config.image_max,
    )
    context.app.require_hosts()
    with changing(context, len(hosts) or len(context.app.ledger.hosts())) as engine:
        done = engine.import_image(request)
    for host, why in done.left_out.items():
        say(f"not on {host}: {why}")
    _say_known(done)
    _print(context, done.image)
    done.outcome.raise_for_failure()
    if done.left_out:
        raise PartlyDone(
            f"{done.image.reference} is not on {', '.join(done.left_out)}",
            why=next(iter(done.left_out.values())),
            next="the same command again, or --host for where it should be",
        )


def _say_known(done: ImportReport) -> None:
    """The same content is no new version."""
    name = done.image.reference
    if done.known:
        copied = ", ".join(sorted(each.host for each in done.outcome.vms))
        then = f"copied to {copied} now" if copied else "nothing was copied"
        say(f"this file is {name} already: the same content; {then}")
    elif done.alike:
        say(f"{name} has the same content as {', '.join(done.alike)}")


@image.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List images, every version of each."""
    ledger = context.app.ledger
    vms, pools = ledger.vms(), ledger.pools()
    print_list("Image", [image_item(each, vms, pools) for each in ledger.images()], COLUMNS)


@image.command()
@click.argument("name", shell_complete=completed("images"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show an image: NAME@VERSION, or NAME for its newest version."""
    from vgpumgr.engine.images.image_import import find

    _print(context, find(context.app.ledger.images(), name))


@image.command()
@click.argument("name", shell_complete=completed("images"))
@click.option("--delete-copies", is_flag=True, help="Delete the copies that no VM uses.")
@output_option
@pass_context
def retire(context: Context, name: str, delete_copies: bool) -> None:
    """Use NAME@VERSION for no new VM. VMs with a disk over it keep running.

    A copy is deleted from a host only where no disk lies over it, kept disks included.
    """
    if "@" not in name:
        raise UsageError(f"which version of {name}?", next=f"vgpumgr image retire {name}@VERSION")
    with changing(context, len(context.app.ledger.hosts())) as engine:
        done = engine.retire_image(name, delete_copies=delete_copies)
    _print(context, done.image)
    done.outcome.raise_for_failure()
    _require_deleted(done)


def _require_deleted(done: RetirementReport) -> None:
    """InUse where VMs keep all copies, PartlyDone where they keep some."""
    if not done.kept:
        return
    host, vms = next(iter(done.kept.items()))
    error = PartlyDone if done.outcome.done else InUse
    raise error(
        f"{done.image.reference} stays on {', '.join(done.kept)}: it is in use",
        why=f"on {host} by {', '.join(vms[:5])}{' and others' if len(vms) > 5 else ''}",
        next="the same command again when these VMs are gone",
    )


def _print(context: Context, found: ImageRecord) -> None:
    ledger = context.app.ledger
    item = image_item(found, ledger.vms(), ledger.pools())
    print_item("Image", item, image_text(item))
