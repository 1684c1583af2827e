"""An image's file on its way to this machine: what is known of it, and why it may not come."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vgpumgr.model.errors import BadImage, Conflict, UsageError, VgpumgrError

MOST_OPEN = 16
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class UploadTooLong(UsageError):
    """More bytes than an upload may have, or than were announced."""

    code = "usage.too-long"


class UploadsFull(Conflict):
    """The folder, or what a user may have in it, has no room."""

    code = "conflict.full"


class DigestDiffers(BadImage):
    """What came is not what was announced."""

    code = "usage.image.digest"


class OffsetDiffers(Conflict):
    """A piece that does not begin where the upload ends; ``details`` has its ``offset``."""

    code = "conflict.offset"

    def __init__(self, offset: int) -> None:
        super().__init__(
            "the piece does not begin where the upload ends",
            why=f"{offset} bytes are there",
            next=f"Upload-Offset: {offset}",
        )
        self.details = {"offset": offset}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUpload:
    """A file that ``user`` sends: its ``name`` for people, its length and SHA-256 as announced.
    ``offset`` is how much of it is durably here. Times are Unix seconds.
    """

    id: str
    user: str
    name: str
    bytes: int
    sha256: str
    begun_at: float
    seen_at: float
    offset: int = 0

    @property
    def whole(self) -> bool:
        """Is all of it here?"""
        return self.offset == self.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """``most_bytes`` of one upload, ``most_staged`` of all of a user, who has at most ``most_open``
    of them; one that is sent no further is kept for ``keep_s`` seconds.
    """

    most_bytes: int
    most_staged: int
    keep_s: float
    most_open: int = MOST_OPEN


def require_digest(upload: ImageUpload, sha256: str) -> None:
    """DigestDiffers where what came is not what was announced."""
    if sha256 != upload.sha256:
        raise DigestDiffers(
            f"{upload.name} is not what was announced",
            why=f"it was to have SHA-256 {upload.sha256[:16]}…, what came has {sha256[:16]}…",
            next="the same command again",
        )


@contextmanager
def disk_errors() -> Iterator[None]:
    """What the disk refuses, as an error of ours; it names no path of this machine."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in _FULL:
            raise UploadsFull(
                "the disk of uploads is full", why=why, next="make room on the controller"
            ) from error
        raise VgpumgrError(
            "the folder of uploads cannot be used",
            why=why,
            next="vgpumgr doctor   on the controller",
        ) from error
