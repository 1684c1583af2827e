"""Reading the user's YAML files."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr.model.errors import NotFound, UsageError
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
    help="YAML file with VM documents; - reads standard input.",
)


def load_documents(context: Context, file: str) -> Documents:
    """Read and check a file; profiles of probed hosts are known beside the catalogue's."""
    return checked(context, _read(file), _source(file))


def checked(context: Context, text: bytes, source: str) -> Documents:
    """The documents of a text. The fleet's own profiles are read only when something is amiss:
    the catalogue knows most names, and a large fleet takes its time."""
    from vgpumgr.spec import SpecError, load

    try:
        return load(text, source)
    except SpecError:
        return load(text, source, known_profiles=_known_profiles(context))


def load_vms(context: Context, file: str) -> tuple[VmSpec, ...]:
    """The VMs of a file; UsageError when it names none."""
    vms = load_documents(context, file).vms
    if not vms:
        source = _source(file)
        raise UsageError(f"{source} names no VM", next="add a document with kind: VM")
    return vms


def _source(file: str) -> str:
    return "standard input" if file == "-" else file


def _read(file: str) -> bytes:
    """At most one byte over the limit is read: the loader refuses what is too long."""
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


def _known_profiles(context: Context) -> frozenset[str]:
    """Profiles that probed hosts offer, beside the catalogue."""
    return frozenset(
        mdev_type.profile for gpu in context.app.ledger.gpus() for mdev_type in gpu.facts.mdev_types
    )
