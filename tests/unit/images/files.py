"""Small qcow2 images made by hand, field by field; a CD."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

import pycdlib

CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
L1, L2, DATA = 3 * CLUSTER, 4 * CLUSTER, 5 * CLUSTER
VIRTUAL = 10 << 20

# Name → offset and format of a field of the header.
FIELDS = {
    "magic": (0, ">4s"),
    "version": (4, ">I"),
    "backing_offset": (8, ">Q"),
    "backing_size": (16, ">I"),
    "cluster_bits": (20, ">I"),
    "virtual": (24, ">Q"),
    "crypt": (32, ">I"),
    "l1_size": (36, ">I"),
    "l1_offset": (40, ">Q"),
    "refcount_offset": (48, ">Q"),
    "refcount_clusters": (56, ">I"),
    "snapshots": (60, ">I"),
    "features": (72, ">Q"),
    "refcount_order": (96, ">I"),
    "header_length": (100, ">I"),
    "compression": (104, ">B"),
    "l1_entry": (L1, ">Q"),
    "l2_entry": (L2, ">Q"),
    "l2_entry_2": (L2 + 8, ">Q"),
    "refcount_entry": (CLUSTER, ">Q"),
}


@dataclass(frozen=True)
class Bytes:
    """A file in memory that counts what is read of it."""

    data: bytes
    seen: Callable[[int], None] = lambda _: None

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, length: int) -> bytes:
        found = self.data[offset : offset + length]
        self.seen(len(found))
        return found


def qcow2(**fields: object) -> bytes:
    """One data cluster, laid out as QEMU does; ``fields`` are put over what would be right."""
    made = bytearray(6 * CLUSTER)
    values: dict[str, object] = {
        "magic": b"QFI\xfb",
        "version": 3,
        "cluster_bits": CLUSTER_BITS,
        "virtual": VIRTUAL,
        "l1_size": 1,
        "l1_offset": L1,
        "refcount_offset": CLUSTER,
        "refcount_clusters": 1,
        "refcount_order": 4,
        "header_length": 112,
        "refcount_entry": 2 * CLUSTER,
        "l1_entry": 1 << 63 | L2,
        "l2_entry": 1 << 63 | DATA,
    }
    for name, value in (values | fields).items():
        offset, form = FIELDS[name]
        struct.pack_into(form, made, offset, value)
    return bytes(made)


def cd() -> bytes:
    """A CD with one file."""
    made, file = pycdlib.PyCdlib(), BytesIO()
    made.new(vol_ident="TOOLS")
    made.add_fp(BytesIO(b"x" * 5000), 5000, "/SETUP.EXE;1")
    made.write_fp(file)
    made.close()
    return file.getvalue()
