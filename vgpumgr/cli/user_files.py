"""The user's YAML files: read here, and sent on as text."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr.endpoints.documents import STDIN, DocumentText, checked, source_name, vms_of
from vgpumgr.model.errors import NotFound, UsageError
from vgpumgr.model.layout import LayoutSpec
from vgpumgr.model.vm import VmSpec

if TYPE_CHECKING:
    from vgpumgr.cli.command_context import Context
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


def write_private(path: Path, data: bytes) -> None:
    """Write a file that its user alone may read, whole or not at all, over one that is there."""
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written", why=error.strerror or str(error), next="another FILE"
        ) from error


def load_documents(context: Context, file: str) -> Documents:
    """Read and check a file; profiles of probed hosts are known beside the catalogue's."""
    from vgpumgr.spec import SpecError, load

    text, source = read_file(file), source_name(file)
    try:
        return load(text, source)
    except SpecError:  # the fleet's own profiles are known to the ledger
        return checked(context.app.ledger, text, source)


def load_vms(context: Context, file: str) -> tuple[VmSpec, ...]:
    """The VMs of a file; UsageError when it names none."""
    return vms_of(load_documents(context, file), file)


def load_layouts(context: Context, file: str) -> tuple[LayoutSpec, ...]:
    """The layouts of a file; UsageError when it holds none."""
    layouts = load_documents(context, file).layouts
    if not layouts:
        raise UsageError(
            f"{source_name(file)} holds no layout", next="add a document with kind: Layout"
        )
    return layouts


def say_others(text: str, kind: str) -> None:
    """Say which documents a command of one kind leaves alone; nothing where there are none."""
    from vgpumgr.cli.output import say
    from vgpumgr.spec import kinds

    others = sorted(kinds(text) - {kind})
    if others:
        say(f"left alone: kind {', '.join(others)}   (vgpumgr apply works all kinds of a file)")


def read_file(file: str) -> bytes:
    """Its bytes, at most one over the limit: the loader refuses what is too long."""
    if file == STDIN:
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
