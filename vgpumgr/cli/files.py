"""Reading the user's YAML files."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr.model.errors import NotFound, UsageError
from vgpumgr.model.layout import LayoutSpec
from vgpumgr.model.vm import VmSpec

if TYPE_CHECKING:
    from vgpumgr.cli.context import Context
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


def load_documents(context: Context, file: str) -> Documents:
    """Read and check a file; profiles of probed hosts are known beside the catalogue's."""
    return checked(context, read_file(file), source_name(file))


def checked(context: Context, text: bytes, source: str) -> Documents:
    """The documents of a text. The fleet's own profiles are read only when something is amiss:
    the catalogue knows most names, and a large fleet takes its time."""
    from vgpumgr.engine.profiles import learned_profiles
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
