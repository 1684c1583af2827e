"""Copies of a volume's file to a libvirt, piece by piece and without its holes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import libvirt

from vgpumgr.model.errors import HostRefused
from vgpumgr.virt.libvirt_errors import is_unsupported

CHUNK_BYTES = 256 * 1024

# What recvFlags answers at a hole, with VIR_STREAM_RECV_STOP_AT_HOLE.
_AT_HOLE = -3
_LENGTH = 2

Volume = tuple[Any, Any]
"""The connection it belongs to, and libvirt's object."""
OnBytesCopied = Callable[[int], None]


@contextmanager
def stream(connection: Any) -> Iterator[Any]:
    """A stream that blocks; finished at the end, aborted when the body raised."""
    opened = connection.newStream(0)
    try:
        yield opened
    except BaseException:
        with suppress(libvirt.libvirtError):  # it may not have begun
            opened.abort()
        raise
    opened.finish()


def send(opened: Any, data: bytes) -> None:
    """All bytes."""
    while data:
        data = data[opened.send(data) :]


def copy(source: Volume, target: Volume, seen: OnBytesCopied) -> None:
    """The whole file; ``seen`` hears how many of its bytes are done, holes included.

    What it raises ends the copy. HostRefused when the target's file is not as long as the
    source's afterwards.
    """
    # libvirt leaves what lies under a hole as it is: where the target may have data, zeros go.
    _, _, allocated = target[1].info()
    written = _length(target[1]) if allocated else 0
    with stream(source[0]) as incoming, stream(target[0]) as outgoing:
        sparse = _open(source[1], target[1], incoming, outgoing)
        done = 0
        for piece in _pieces(incoming, sparse=sparse):
            done += _put(outgoing, piece, done, written)
            seen(done)
    sent, there = _length(source[1]), _length(target[1])
    if sent != there:
        raise HostRefused(
            "the copy of a volume is not as long as the volume",
            why=f"{sent} bytes were read, the file on the target has {there}",
        )


def fill(target: Volume, length: int, pieces: Iterable[bytes | int]) -> None:
    """The whole file of a volume that has no data yet, from pieces as :func:`copy` has them."""
    connection, volume = target
    with stream(connection) as outgoing:
        written, done = 0, 0
        try:
            volume.upload(outgoing, 0, 0, libvirt.VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM)
        except libvirt.libvirtError as error:
            if not is_unsupported(error):
                raise
            volume.upload(outgoing, 0, length, 0)
            written = length  # it knows no holes: zeros go
        for piece in pieces:
            done += _put(outgoing, piece, done, written)


def _open(source: Any, target: Any, incoming: Any, outgoing: Any) -> bool:
    """Both ends as sparse streams, or both as plain ones where either cannot (libvirt 3.4)."""
    try:
        source.download(incoming, 0, 0, libvirt.VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
    except libvirt.libvirtError as error:
        if not is_unsupported(error):
            raise
        source.download(incoming, 0, 0, 0)
        target.upload(outgoing, 0, 0, 0)
        return False
    target.upload(outgoing, 0, 0, libvirt.VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM)
    return True


def _pieces(incoming: Any, *, sparse: bool) -> Iterator[bytes | int]:
    """Data, or the length of a hole, until the file's end."""
    flags = libvirt.VIR_STREAM_RECV_STOP_AT_HOLE if sparse else 0
    while piece := incoming.recvFlags(CHUNK_BYTES, flags):
        yield incoming.recvHole() if piece == _AT_HOLE else piece


def _put(outgoing: Any, piece: bytes | int, at: int, written: int) -> int:
    """Send one piece and return its length; of a hole below ``written``, zeros."""
    if isinstance(piece, bytes):
        send(outgoing, piece)
        return len(piece)
    zeros = max(0, min(at + piece, written) - at)
    for start in range(0, zeros, CHUNK_BYTES):
        send(outgoing, bytes(min(CHUNK_BYTES, zeros - start)))
    if piece > zeros:
        outgoing.sendHole(piece - zeros)
    return piece


def _length(volume: Any) -> int:
    """The file's length in bytes, which for qcow2 is not the disk's."""
    return int(volume.infoFlags(libvirt.VIR_STORAGE_VOL_GET_PHYSICAL)[_LENGTH])
