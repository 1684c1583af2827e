"""The first bytes of the disk images that a simulated host would have."""

from __future__ import annotations

import struct

from vgpumgr.model.domain import VolumeFacts

_CLUSTER_BITS = 16
_HEADER_BYTES = 104
_BACKING_FORMAT = 0xE2792ACA
EMPTY_QCOW2_BYTES = 196_608


def head(volume: VolumeFacts, uploaded: bytes, limit: int) -> tuple[bytes, int]:
    """The volume's first ``limit`` bytes and its size; what was uploaded is where it was put."""
    if volume.format == "qcow2":
        content, size = _qcow2(volume), EMPTY_QCOW2_BYTES
    else:
        content, size = b"", volume.capacity_bytes
    size = max(size, len(uploaded))
    content = uploaded + content[len(uploaded) :]
    return content[:limit].ljust(min(limit, size), b"\0"), size


def _qcow2(volume: VolumeFacts) -> bytes:
    """A version 3 header (QEMU docs/interop/qcow2.txt)."""
    backing = (volume.backing_path or "").encode()
    extension = struct.pack(">II8s", _BACKING_FORMAT, 5, b"qcow2") if backing else b""
    extensions = extension + struct.pack(">II", 0, 0)
    header = struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        b"QFI\xfb",
        3,
        _HEADER_BYTES + len(extensions) if backing else 0,
        len(backing),
        _CLUSTER_BITS,
        volume.capacity_bytes,
        0,  # not encrypted
        1,
        3 << _CLUSTER_BITS,
        1 << _CLUSTER_BITS,
        1,
        0,
        0,
        0,
        0,
        0,
        4,
        _HEADER_BYTES,
    )
    return header + extensions + backing
