"""Disk images, looked at before they are used: of the declared format, whole, standing by itself.

Pure: nothing of a file is believed unchecked. The header is read as the helper reads it on hosts;
here it is held against the file, too, and so are the tables of a qcow2 image (QEMU's
``docs/interop/qcow2.txt``). Every table is used once in an image without snapshots, so that reading
them all reads no more than the file: an image that names one twice is refused.
"""

from __future__ import annotations

import shlex
import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from vgpumgr.helper.facts import image_header
from vgpumgr.model.errors import BadImage
from vgpumgr.model.formats import size_words
from vgpumgr.model.image import CD

# The largest disk that is taken unless a setting says otherwise.
MOST_BYTES = 2 << 40

_SECTOR = 512
_VHD_FOOTER = b"conectix"

# The first descriptor of an ISO 9660 volume (ECMA-119, 8.4): where it lies and how it begins; in
# it the volume's length in blocks and a block's in bytes, each in both byte orders.
_CD_VOLUME, _CD_MAGIC, _CD_SECTOR = 0x8000, b"\x01CD001", 2048
_CD_BLOCKS, _CD_BLOCK_BYTES = struct.Struct("<I"), struct.Struct("<H")
_CD_BLOCKS_AT, _CD_BLOCK_BYTES_AT = 80, 128

# QEMU's own limits (block/qcow2.h).
_MOST_L1_BYTES = 32 << 20
_MOST_REFCOUNT_TABLE_BYTES = 8 << 20

_HEADER = struct.Struct(">4sIQIIQIIQQIIQ")
_HEADER_V3 = struct.Struct(">QQQII")
_ENTRY_BYTES = 8

_DIRTY, _COMPRESSION, _EXTENDED = 1 << 0, 1 << 3, 1 << 4
_ZLIB, _ZSTD = 0, 1
_OFFSET = 0x00FF_FFFF_FFFF_FE00
_COMPRESSED = 1 << 62
_MOST_REFCOUNT_ORDER = 6
_LEAST_EXTENDED_BITS = 14


class Reader(Protocol):
    """A file that can be read anywhere."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``; fewer only where the file ends."""


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
    if found == "raw" and declared == CD:
        found = CD
    if found != declared:
        what = "no qcow2 image" if declared == "qcow2" else f"a {found} image, not {declared}"
        raise ValueError(f"the file is {what}: the format is declared, never guessed")
    if found == "raw":
        _require_disk(reader)
    elif found == CD:
        _require_cd(reader)
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
        _check_qcow2(reader, virtual)
    return Inspected(format=found, virtual_bytes=virtual, file_bytes=reader.size)


def _require_disk(reader: Reader) -> None:
    """What looks raw from its beginning, and is something else."""
    if reader.read(max(0, reader.size - _SECTOR), len(_VHD_FOOTER)) == _VHD_FOOTER:
        raise ValueError("the image is vhd; only raw and qcow2 are used")
    if _is_cd(reader):
        raise ValueError("the file is an ISO 9660 image of a CD, no disk")
    if reader.size % _SECTOR:
        why = f"its {reader.size} bytes are not a whole number of sectors of {_SECTOR}"
        raise ValueError(f"the raw image is cut off: {why}")


def _is_cd(reader: Reader) -> bool:
    return reader.read(_CD_VOLUME, len(_CD_MAGIC)) == _CD_MAGIC


def _require_cd(reader: Reader) -> None:
    """A volume of ISO 9660, all of whose blocks are there. What UDF has in addition is not read."""
    if not _is_cd(reader):
        raise ValueError("the file is no ISO 9660 image: the format is declared, never guessed")
    volume = reader.read(_CD_VOLUME, _CD_SECTOR)
    if len(volume) < _CD_SECTOR:
        raise ValueError("the ISO image is cut off in its first descriptor")
    [blocks] = _CD_BLOCKS.unpack_from(volume, _CD_BLOCKS_AT)
    [block] = _CD_BLOCK_BYTES.unpack_from(volume, _CD_BLOCK_BYTES_AT)
    if blocks * block > reader.size:
        raise ValueError(
            f"the ISO image is cut off: {blocks * block} bytes, {reader.size} are there"
        )


def _advice(problem: str) -> str:
    """What helps, where a command does."""
    if "qemu-img" in problem:
        return ""
    if "backing file" in problem or "another file" in problem or "snapshots" in problem:
        return "qemu-img convert -O qcow2 FILE NEW   (one file, by itself)"
    if "only raw and qcow2" in problem:
        return "qemu-img convert -O qcow2 FILE NEW"
    if "never guessed" in problem:
        return "--format raw, qcow2 or iso, as the file is"
    if "of a CD" in problem:
        return f"--format {CD}"
    if "are allowed" in problem:
        return "the setting image_max, like 4TiB"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Qcow2Header:
    """What of the header leads to the tables."""

    cluster_bits: int
    l1_entries: int
    l1_offset: int
    refcount_offset: int
    refcount_clusters: int
    snapshots: int
    features: int
    refcount_order: int
    compression: int

    @property
    def cluster(self) -> int:
        """A cluster's length in bytes."""
        return 1 << self.cluster_bits

    @property
    def l2_entry_bytes(self) -> int:
        """An entry has a bitmap beside it where clusters have subclusters."""
        return 2 * _ENTRY_BYTES if self.features & _EXTENDED else _ENTRY_BYTES

    @property
    def l2_covers(self) -> int:
        """Bytes of the disk that one L2 table stands for."""
        return self.cluster // self.l2_entry_bytes * self.cluster


def _check_qcow2(reader: Reader, virtual_bytes: int) -> None:
    """ValueError for an image whose structure is not whole; its header was read before."""
    header = _header(reader)
    _check_features(header)
    _check_refcounts(reader, header)
    used: set[int] = set()
    for table in _l2_tables(reader, header, virtual_bytes):
        if table in used:
            raise ValueError(f"qcow2: the L2 table at {table:#x} is used twice")
        used.add(table)
        _check_l2(reader, header, table)


def _header(reader: Reader) -> Qcow2Header:
    head = reader.read(0, 112)
    if len(head) < _HEADER.size:
        raise ValueError(f"qcow2: the file ends in the header, after {len(head)} bytes")
    (_, version, _, _, bits, _, _, l1_entries, l1, refcounts, clusters, snapshots, _) = (
        _HEADER.unpack_from(head)
    )
    features, order, compression = 0, 4, _ZLIB
    if version == 3:
        features, _, _, order, length = _HEADER_V3.unpack_from(head, _HEADER.size)
        compression = head[104] if length > 104 and len(head) > 104 else _ZLIB
    return Qcow2Header(
        cluster_bits=bits,
        l1_entries=l1_entries,
        l1_offset=l1,
        refcount_offset=refcounts,
        refcount_clusters=clusters,
        snapshots=snapshots,
        features=features,
        refcount_order=order,
        compression=compression,
    )


def _check_features(header: Qcow2Header) -> None:
    if header.features & _DIRTY:
        raise ValueError(
            "qcow2: the image was not closed (dirty); repair it with qemu-img check -r all"
        )
    if header.compression not in {_ZLIB, _ZSTD}:
        raise ValueError(f"qcow2: unknown compression type {header.compression}")
    if bool(header.features & _COMPRESSION) != (header.compression != _ZLIB):
        raise ValueError("qcow2: compression type and feature bit contradict each other")
    if header.refcount_order > _MOST_REFCOUNT_ORDER:
        raise ValueError(f"qcow2: refcounts of 2^{header.refcount_order} bits")
    if header.features & _EXTENDED and header.cluster_bits < _LEAST_EXTENDED_BITS:
        raise ValueError(f"qcow2: subclusters in clusters of {header.cluster} bytes")
    if header.snapshots:
        raise ValueError(f"qcow2: the image has snapshots inside ({header.snapshots})")


def _check_refcounts(reader: Reader, header: Qcow2Header) -> None:
    """A table of tables; what they count is not gone into."""
    length = header.refcount_clusters * header.cluster
    if not 0 < length <= _MOST_REFCOUNT_TABLE_BYTES:
        raise ValueError(f"qcow2: refcount table of {length} bytes")
    _require_table(reader, header, header.refcount_offset, length, "refcount table")
    for entry in _entries(reader, header.refcount_offset, length):
        if entry:
            _require_table(reader, header, entry, header.cluster, "refcount block")


def _l2_tables(reader: Reader, header: Qcow2Header, virtual_bytes: int) -> Iterator[int]:
    length = header.l1_entries * _ENTRY_BYTES
    needed = -(-virtual_bytes // header.l2_covers)
    if header.l1_entries < needed or length > _MOST_L1_BYTES:
        raise ValueError(f"qcow2: L1 table of {header.l1_entries} entries, {needed} are needed")
    _require_table(reader, header, header.l1_offset, length, "L1 table")
    for entry in _entries(reader, header.l1_offset, length):
        table = entry & _OFFSET
        if table:
            _require_table(reader, header, table, header.cluster, "L2 table")
            yield table


def _check_l2(reader: Reader, header: Qcow2Header, table: int) -> None:
    entries = _entries(reader, table, header.cluster)
    step = header.l2_entry_bytes // _ENTRY_BYTES
    # A compressed cluster lies at any byte, and its offset has fewer bits the larger clusters are.
    compressed_offset = (1 << (62 - (header.cluster_bits - 8))) - 1
    unaligned = (header.cluster - 1) & _OFFSET
    for entry in entries[::step]:
        if entry & _COMPRESSED:
            start = entry & compressed_offset
        else:
            start = entry & _OFFSET
            if start & unaligned:
                raise ValueError(f"qcow2: a data cluster at {start:#x} is not aligned")
        if start >= reader.size:
            raise _beyond(f"a data cluster at {start:#x}", reader)


def _require_table(
    reader: Reader, header: Qcow2Header, offset: int, length: int, what: str
) -> None:
    if not length:
        return
    if not offset or offset % header.cluster:
        raise ValueError(f"qcow2: the {what} at {offset:#x} is not aligned")
    if offset + length > reader.size:
        raise _beyond(f"the {what} at {offset:#x}", reader)


def _beyond(what: str, reader: Reader) -> ValueError:
    return ValueError(f"qcow2: the file is cut off: {what} lies beyond its {reader.size} bytes")


def _entries(reader: Reader, offset: int, length: int) -> array[int]:
    """Big-endian words; the caller has seen that they are in the file."""
    found = array("Q", reader.read(offset, length)[: length // _ENTRY_BYTES * _ENTRY_BYTES])
    if sys.byteorder == "little":
        found.byteswap()
    return found
