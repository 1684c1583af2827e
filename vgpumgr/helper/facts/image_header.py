"""The header of a disk image, from its first MiB; nothing in it is believed unchecked.

Layout of qcow2: QEMU's ``docs/interop/qcow2.txt``. Other formats are known by their magic only,
to refuse them by name.
"""

from __future__ import annotations

import struct

HEAD_BYTES = 1 << 20

_QCOW2 = b"QFI\xfb"
_REFUSED = (
    (0, b"QED\x00", "qed"),
    (0, b"KDMV", "vmdk"),
    (0, b"COWD", "vmdk"),
    (0, b"# Disk DescriptorFile", "vmdk"),
    (0x40, b"\x7f\x10\xda\xbe", "vdi"),
    (0, b"vhdxfile", "vhdx"),
    (0, b"conectix", "vhd"),
    (0, b"LUKS\xba\xbe", "luks"),
    (0, b"WithoutFreeSpace", "parallels"),
    (0, b"WithouFreSpacExt", "parallels"),
    (0, b"Bochs Virtual HD Image", "bochs"),
    (0, b"OOOM", "cow"),
    (0, b"#!/bin/sh\n#V2.0 Format\n", "cloop"),
    (0, b"\x1f\x8b", "gzip"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
)

# Incompatible feature bits of version 3.
_CORRUPT, _DATA_FILE = 1 << 1, 1 << 2
_KNOWN_FEATURES = 0b11111  # dirty, corrupt, data file, compression type, extended L2

# Header extensions.
_END, _BACKING_FORMAT, _DATA_FILE_NAME = 0, 0xE2792ACA, 0x44415441
_MAX_NAME = 1023


def inspect(head: bytes, size: int) -> dict[str, object]:
    """Read an image's header.

    ``head`` is its first MiB (or all of it), ``size`` the file's length in bytes. The answer's
    keys are ``format`` (raw or qcow2), ``virtual_bytes``, ``backing`` and ``data_file`` (names as
    written in the image, or None), ``backing_format`` (as declared there) and ``encrypted``.
    ValueError for any other format and for a header that contradicts itself.
    """
    if size <= 0 or not head:
        raise ValueError("the image is empty")
    if head.startswith(_QCOW2):
        return _qcow2(head)
    for offset, magic, name in _REFUSED:
        if head.startswith(magic, offset):
            raise ValueError(f"the image is {name}; only raw and qcow2 are used")
    return _answer("raw", size)


def _answer(
    kind: str,
    virtual_bytes: int,
    backing: str | None = None,
    data_file: str | None = None,
    encrypted: bool = False,
    backing_format: str | None = None,
) -> dict[str, object]:
    return {
        "format": kind,
        "virtual_bytes": virtual_bytes,
        "backing": backing,
        "backing_format": backing_format,
        "data_file": data_file,
        "encrypted": encrypted,
    }


def _qcow2(head: bytes) -> dict[str, object]:
    version = _u32(head, 4)
    if version not in {2, 3}:
        name = "qcow (version 1)" if version == 1 else f"qcow2 of version {version}"
        raise ValueError(f"the image is {name}; only raw and qcow2 (versions 2, 3) are used")
    if not 9 <= _u32(head, 20) <= 21:
        raise ValueError(f"qcow2: cluster size of 2^{_u32(head, 20)} bytes")
    virtual_bytes = _u64(head, 24)
    if virtual_bytes >= 1 << 63:
        raise ValueError(f"qcow2: virtual size of {virtual_bytes} bytes")
    extensions = _extensions(head, _header_length(head, version))
    features = _features(head, version)
    return _answer(
        "qcow2",
        virtual_bytes,
        _backing(head, extensions),
        _data_file(features, extensions),
        _u32(head, 32) != 0,
        _name(extensions[_BACKING_FORMAT], "backing format") if _u64(head, 8) else None,
    )


def _header_length(head: bytes, version: int) -> int:
    if version == 2:
        return 72
    length = _u32(head, 100)
    if length < 104 or length % 8 or length > 1 << _u32(head, 20):
        raise ValueError(f"qcow2: header of {length} bytes")
    return length


def _features(head: bytes, version: int) -> int:
    features = _u64(head, 72) if version == 3 else 0
    if features & _CORRUPT:
        raise ValueError("qcow2: the image is marked corrupt; repair it with qemu-img check -r all")
    if features & ~_KNOWN_FEATURES:
        raise ValueError(f"qcow2: unknown incompatible features {features:#x}")
    return features


def _extensions(head: bytes, offset: int) -> dict[int, bytes]:
    """Extension type → data; they end with type 0, or where the backing file's name starts."""
    found: dict[int, bytes] = {}
    cluster = 1 << _u32(head, 20)
    end = _u64(head, 8) or cluster
    if end > cluster:
        raise ValueError("qcow2: the backing file's name lies outside the header cluster")
    while offset < end:
        kind, length = _u32(head, offset), _u32(head, offset + 4)
        if kind == _END:
            break
        if kind in found:
            raise ValueError(f"qcow2: header extension {kind:#x} comes twice")
        if offset + 8 + length > end:
            raise ValueError(f"qcow2: header extension {kind:#x} runs past the extensions' end")
        found[kind] = _bytes(head, offset + 8, length)
        offset += 8 + (length + 7) // 8 * 8
    return found


def _backing(head: bytes, extensions: dict[int, bytes]) -> str | None:
    offset, length = _u64(head, 8), _u32(head, 16)
    if not offset:
        return None
    if not 1 <= length <= _MAX_NAME:
        raise ValueError(f"qcow2: backing file name of {length} bytes")
    name = _name(_bytes(head, offset, length), "backing file")
    if not extensions.get(_BACKING_FORMAT):
        raise ValueError(
            f"qcow2: the format of backing file {name!r} is not declared and is never guessed; "
            "declare it with qemu-img rebase -u -F FORMAT -b BACKING IMAGE"
        )
    return name


def _data_file(features: int, extensions: dict[int, bytes]) -> str | None:
    """A name counts even where the feature bit is off: better one refusal too many."""
    name = extensions.get(_DATA_FILE_NAME)
    if name is not None:
        return _name(name, "data file")
    if features & _DATA_FILE:
        raise ValueError("qcow2: the data lies in another file, which is not named")
    return None


def _name(raw: bytes, what: str) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise ValueError(f"qcow2: name of the {what} is not UTF-8: {raw!r}") from None
    if not name.isprintable() or not name:
        raise ValueError(f"qcow2: name of the {what} is not printable: {raw!r}")
    return name


def _bytes(head: bytes, offset: int, length: int) -> bytes:
    if offset + length > len(head):
        raise ValueError(f"qcow2: header points past its first {len(head)} bytes")
    return head[offset : offset + length]


def _u32(head: bytes, offset: int) -> int:
    return int(struct.unpack(">I", _bytes(head, offset, 4))[0])


def _u64(head: bytes, offset: int) -> int:
    return int(struct.unpack(">Q", _bytes(head, offset, 8))[0])
