"""The inspection of a disk image: of the declared format, whole, and self-contained.

The header is read as the helper reads it on hosts; here it is held against the file, too.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from vgpumgr.helper.facts import image_header
from vgpumgr.images import qcow2
from vgpumgr.images.qcow2 import Reader
from vgpumgr.model.errors import BadImage
from vgpumgr.model.formats import size_words

# The largest disk that is taken unless a setting says otherwise.
MOST_BYTES = 2 << 40

_SECTOR = 512
_VHD_FOOTER = b"conectix"
_ISO = (0x8001, b"CD001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """``virtual_bytes`` is the disk that a guest sees, ``file_bytes`` the file."""

    format: str
    virtual_bytes: int
    file_bytes: int


def inspect(
    reader: Reader, declared: str, *, name: str = "FILE", most_bytes: int = MOST_BYTES
) -> Inspected:
    """Look at the whole of an image's structure; BadImage says what is wrong with ``name``.

    Reads at most the file once, and allocates no more than its tables, which have limits.
    """
    try:
        return _inspect(reader, declared, most_bytes)
    except ValueError as error:
        problem = str(error)
        advice = _advice(problem).replace("FILE", shlex.quote(name))
        raise BadImage(f"{name} cannot be used", why=problem, next=advice) from error


def _inspect(reader: Reader, declared: str, most_bytes: int) -> Inspected:
    header = image_header.inspect(reader.read(0, image_header.HEAD_BYTES), reader.size)
    found, virtual = str(header["format"]), int(str(header["virtual_bytes"]))
    if found != declared:
        what = "no qcow2 image" if declared == "qcow2" else f"a {found} image, not {declared}"
        raise ValueError(f"the file is {what}: the format is declared, never guessed")
    if found == "raw":
        _require_disk(reader)
    elif header["backing"]:
        raise ValueError(f"the image needs a backing file: {header['backing']}")
    elif header["data_file"]:
        raise ValueError(f"the image keeps its data in another file: {header['data_file']}")
    elif header["encrypted"]:
        raise ValueError("the image is encrypted; nobody could start a VM from it")
    if not virtual:
        raise ValueError("the image is of a disk without a single byte")
    if virtual > most_bytes:
        most = size_words(most_bytes)
        raise ValueError(f"the image is of a disk of {size_words(virtual)}, {most} are allowed")
    if found == "qcow2":
        qcow2.check(reader, virtual)
    return Inspected(format=found, virtual_bytes=virtual, file_bytes=reader.size)


def _require_disk(reader: Reader) -> None:
    """What looks raw from its beginning, and is something else."""
    if reader.read(max(0, reader.size - _SECTOR), len(_VHD_FOOTER)) == _VHD_FOOTER:
        raise ValueError("the image is vhd; only raw and qcow2 are used")
    offset, magic = _ISO
    if reader.read(offset, len(magic)) == magic:
        raise ValueError("the file is an ISO 9660 image of a CD, no disk")
    if reader.size % _SECTOR:
        why = f"its {reader.size} bytes are not a whole number of sectors of {_SECTOR}"
        raise ValueError(f"the raw image is cut off: {why}")


def _advice(problem: str) -> str:
    """What helps, where a command does."""
    if "qemu-img" in problem:
        return ""
    if "backing file" in problem or "another file" in problem or "snapshots" in problem:
        return "qemu-img convert -O qcow2 FILE NEW   (one file, by itself)"
    if "only raw and qcow2" in problem:
        return "qemu-img convert -O qcow2 FILE NEW"
    if "never guessed" in problem:
        return "--format raw or --format qcow2, as the file is"
    if "are allowed" in problem:
        return "the setting image_max, like 4TiB"
    return ""
