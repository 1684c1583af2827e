"""A volume's file through us: holes, old data under them, and ends that come too early."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import libvirt
import pytest

from vgpumgr.model.errors import HostRefused
from vgpumgr.virt import libvirt_storage

AT_HOLE = -3


def unsupported() -> libvirt.libvirtError:
    error = libvirt.libvirtError("unsupported flags (0x1) in function")
    error.err = (libvirt.VIR_ERR_INVALID_ARG, 0, "unsupported flags", 2, "", "", "", 0, 0)
    error.args = ("unsupported flags (0x1)",)
    return error


class FakeStream:
    """Gives what is in ``pieces`` (bytes, or a hole's length), keeps what it is given."""

    def __init__(self, pieces: Iterable[bytes | int] = ()) -> None:
        self.pieces = list(pieces)
        self.file: FakeVolume | None = None
        self.at = 0
        self.ended = ""

    def recvFlags(self, size: int, flags: int) -> bytes | int:  # noqa: N802
        if not self.pieces:
            return b""
        if isinstance(self.pieces[0], int):
            assert flags == libvirt.VIR_STREAM_RECV_STOP_AT_HOLE
            return AT_HOLE
        first = self.pieces.pop(0)
        assert isinstance(first, bytes)
        if len(first) > size:
            self.pieces.insert(0, first[size:])
        return first[:size]

    def recvHole(self) -> int:  # noqa: N802
        return int(self.pieces.pop(0))

    def send(self, data: bytes) -> int:
        """Never more than 1000 bytes at once."""
        assert self.file is not None
        data = data[:1000]
        self.file.write(self.at, data)
        self.at += len(data)
        return len(data)

    def sendHole(self, length: int) -> None:  # noqa: N802
        """As libvirt's: it moves on, and what lies there stays."""
        assert self.file is not None
        self.at += length
        self.file.content = self.file.content[: self.at].ljust(self.at, b"\0")

    def finish(self) -> None:
        self.ended = "finished"

    def abort(self) -> None:
        self.ended = "aborted"


class FakeVolume:
    def __init__(self, content: bytes, *, allocated: bool = True, sparse: bool = True) -> None:
        self.content = content
        self.allocated = allocated
        self.sparse = sparse
        self.flags: list[int] = []

    def info(self) -> list[int]:
        return [0, len(self.content), len(self.content) if self.allocated else 0]

    def infoFlags(self, flags: int) -> list[int]:  # noqa: N802
        assert flags == libvirt.VIR_STORAGE_VOL_GET_PHYSICAL
        return [0, 0, len(self.content)]

    def write(self, at: int, data: bytes) -> None:
        self.content = self.content[:at].ljust(at, b"\0") + data + self.content[at + len(data) :]

    def download(self, stream: FakeStream, offset: int, length: int, flags: int) -> None:
        if flags and not self.sparse:
            raise unsupported()
        self.flags.append(flags)
        if not flags:
            stream.pieces = [self.content]

    def upload(self, stream: FakeStream, offset: int, length: int, flags: int) -> None:
        self.flags.append(flags)
        stream.file = self


class FakeConnection:
    def __init__(self, stream: FakeStream) -> None:
        self.stream = stream

    def newStream(self, flags: int) -> FakeStream:  # noqa: N802
        return self.stream


def copied(
    pieces: list[bytes | int],
    target: FakeVolume,
    seen: Any = lambda _: None,
    *,
    sparse: bool = True,
) -> tuple[FakeStream, FakeStream]:
    whole = b"".join(bytes(each) if isinstance(each, int) else each for each in pieces)
    streams = FakeStream(pieces), FakeStream()
    source = FakeVolume(whole, sparse=sparse)
    ends = [(FakeConnection(s), v) for s, v in zip(streams, (source, target), strict=True)]
    libvirt_storage.copy_file(ends[0], ends[1], seen)
    assert target.content == whole
    return streams


def test_data_and_holes_arrive_and_are_told() -> None:
    heard: list[int] = []
    target = FakeVolume(bytes(900_000), allocated=False)
    streams = copied([b"a" * 300_000, 500_000, b"b" * 100_000], target, heard.append)
    assert heard == [262_144, 300_000, 800_000, 900_000]
    assert [each.ended for each in streams] == ["finished", "finished"]


def test_old_data_does_not_shine_through_a_hole() -> None:
    copied([b"a" * 10, 5_000, b"b" * 10, 2_000_000], FakeVolume(b"old" * 1_000))


def test_a_longer_file_ends_where_the_source_ends() -> None:
    copied([b"a" * 10, 5_000], FakeVolume(b"", allocated=False))
    with pytest.raises(HostRefused, match="not as long"):
        copied([b"a" * 10], FakeVolume(b"old" * 1_000))


def test_libvirt_without_sparse_streams_sends_everything() -> None:
    target = FakeVolume(b"", allocated=False)
    copied([b"a" * 10, 5_000], target, sparse=False)
    assert target.flags == [0]


def test_whoever_listens_may_end_it() -> None:
    streams = FakeStream([b"a" * 10]), FakeStream()
    volumes = FakeVolume(b"a" * 10), FakeVolume(b"")
    ends = [(FakeConnection(s), v) for s, v in zip(streams, volumes, strict=True)]

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        libvirt_storage.copy_file(ends[0], ends[1], stop)
    assert [each.ended for each in streams] == ["aborted", "aborted"]
