"""An image file on this machine: its format, its digest, and its pieces for a transfer."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vgpumgr.model.errors import BadImage, NotFound

PIECE_BYTES = 1 << 20
_ZEROS = bytes(PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An open file; fulfils ``images.Reader``."""

    path: str
    descriptor: int
    size: int

    def read(self, offset: int, length: int) -> bytes:
        """So many bytes from there; fewer only where the file ends."""
        found = b""
        while len(found) < length:
            piece = os.pread(self.descriptor, length - len(found), offset + len(found))
            if not piece:
                break
            found += piece
        return found

    def pieces(self) -> Iterator[bytes | int]:
        """The whole file: data, or the length of a hole."""
        at = 0
        while at < self.size:
            data = self._data_from(at)
            if data > at:
                yield data - at
            yield from self._run(data, end := self._hole_from(data))
            at = end

    def _run(self, start: int, end: int) -> Iterator[bytes]:
        for at in range(start, end, PIECE_BYTES):
            length = min(PIECE_BYTES, end - at)
            piece = self.read(at, length)
            if len(piece) != length:
                raise BadImage(f"{self.path} became shorter while it was read")
            yield piece

    def _data_from(self, at: int) -> int:
        try:
            return min(self.size, os.lseek(self.descriptor, at, os.SEEK_DATA))
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                return self.size
            raise

    def _hole_from(self, at: int) -> int:
        if at >= self.size:
            return at
        return min(self.size, os.lseek(self.descriptor, at, os.SEEK_HOLE))


@contextmanager
def opened(path: str) -> Iterator[ImageFile]:
    """The file at an absolute path; NotFound or BadImage where it is no file that can be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path} on this machine") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadImage(f"{path} cannot be read", why=why) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise BadImage(f"{path} is not a plain file")
        yield ImageFile(path, descriptor, found.st_size)
    except OSError as error:
        raise BadImage(f"{path} cannot be read", why=error.strerror or str(error)) from error
    finally:
        os.close(descriptor)


class Digest:
    """SHA-256 of pieces as they pass by."""

    def __init__(self) -> None:
        self._found = hashlib.sha256()
        self.bytes = 0

    def update(self, piece: bytes | int) -> None:
        """Take in data, or a hole: zeros."""
        if isinstance(piece, bytes):
            self._found.update(piece)
            self.bytes += len(piece)
            return
        for start in range(0, piece, PIECE_BYTES):
            self._found.update(_ZEROS[: min(PIECE_BYTES, piece - start)])
        self.bytes += piece

    @property
    def sha256(self) -> str:
        """Of all so far."""
        return self._found.hexdigest()
