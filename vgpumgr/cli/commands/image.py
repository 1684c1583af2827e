"""The commands `image import`, `list`, `show` and `retire`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, cast

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.image_files import import_image
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
)
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.ages import age
from vgpumgr.endpoints.image_imports import ImageToImport
from vgpumgr.endpoints.images import (
    LIST_IMAGES,
    RETIRE_IMAGE,
    SHOW_IMAGE,
    ImageItem,
    ImageRetirement,
    OneImage,
)
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.formats import size_words, spanned
from vgpumgr.model.image import FORMATS, VERSION
from vgpumgr.model.vm import NAME


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
    "--format", "kind", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True,
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
    asked = ImageToImport(
        name=name,
        version=version or "",
        format=cast("Any", kind),
        hosts=tuple(dict.fromkeys(hosts)),
        pool=pool,
    )
    path = os.path.abspath(file)  # noqa: PTH100  links stay: the step opens it again
    done = import_image(context, path, asked)
    _print(done.answer)
    finish(done)


@image.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List images, every version of each."""
    print_list("Image", context.read(LIST_IMAGES, Nothing()).answer["items"], COLUMNS)


@image.command()
@click.argument("name", shell_complete=completed("images"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show an image: NAME@VERSION, or NAME for its newest version."""
    _print(context.read(SHOW_IMAGE, OneImage(name=name)).answer)


@image.command()
@click.argument("name", shell_complete=completed("images"))
@click.option("--delete-copies", is_flag=True, help="Delete the copies that no VM uses.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before copies are deleted.")
@output_option
@pass_context
def retire(context: Context, name: str, delete_copies: bool, yes: bool) -> None:
    """Use NAME@VERSION for no new VM. VMs with a disk over it keep running.

    A copy is deleted from a host only where no disk lies over it, kept disks included.
    """
    if delete_copies:
        item = context.read(SHOW_IMAGE, OneImage(name=name)).answer
        if hosts := [each["host"] for each in item["copies"]]:
            confirm(yes=yes)(f"delete the copies of {name} on {', '.join(hosts)}?")
    asked = ImageRetirement(name=name, delete_copies=delete_copies)
    done = carry_out(context, RETIRE_IMAGE, asked)
    _print(done.answer)
    finish(done)


def _print(item: ImageItem) -> None:
    print_item("Image", item, image_text(item))
