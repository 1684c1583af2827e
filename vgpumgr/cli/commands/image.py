"""The commands `image import`, `list`, `show` and `retire`."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

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
)
from vgpumgr.cli.running_command import carry_out, finish, telling
from vgpumgr.cli.views.ages import age
from vgpumgr.endpoints.image_imports import IMPORT_IMAGE, ImageToImport, import_file
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

if TYPE_CHECKING:
    from vgpumgr.client.api_client import ApiClient
    from vgpumgr.endpoints.endpoint import Result

_ANY_SIZE = 1 << 62
"""The largest disk is a setting of the server."""


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
    if context.server is not None:
        done = _import_there(context, context.server, path, asked)
    else:
        here = replace(IMPORT_IMAGE, work=lambda call, asked: import_file(call, asked, path))
        done = carry_out(context, here, asked, total=len(hosts) or len(context.app.ledger.hosts()))
    _print(done.answer)
    finish(done)


def _import_there(
    context: Context, server: ApiClient, path: str, asked: ImageToImport
) -> Result[ImageItem]:
    """Import a file of this machine at a server, to which it is sent where the server needs it. It
    is looked at here, too: what the server would refuse is not sent.
    """
    from vgpumgr.client.file_upload import FileUpload
    from vgpumgr.engine.images.image_copies import ImageImport
    from vgpumgr.engine.images.image_import import FileNeeded, examined
    from vgpumgr.engine.steps.image_file import opened

    with telling(str) as tell:
        looked_at = ImageImport(
            path=path, name=asked.name, format=asked.format, most_bytes=_ANY_SIZE
        )
        sha256 = examined(looked_at, threading.Event(), tell).sha256
    try:
        return carry_out(context, IMPORT_IMAGE, replace(asked, sha256=sha256))
    except FileNeeded:
        upload = FileUpload(server)
        with telling(lambda: upload.next) as tell, opened(path) as file:
            id_ = upload.send(file, os.path.basename(path), sha256, tell)  # noqa: PTH119
    return carry_out(context, IMPORT_IMAGE, replace(asked, upload=id_))


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
@output_option
@pass_context
def retire(context: Context, name: str, delete_copies: bool) -> None:
    """Use NAME@VERSION for no new VM. VMs with a disk over it keep running.

    A copy is deleted from a host only where no disk lies over it, kept disks included.
    """
    asked = ImageRetirement(name=name, delete_copies=delete_copies)
    done = carry_out(context, RETIRE_IMAGE, asked)
    _print(done.answer)
    finish(done)


def _print(item: ImageItem) -> None:
    print_item("Image", item, image_text(item))
