"""Disk images in versions, and their copies on hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.vm import NAME

# A version, and an image with its version, as users write them: 12, cad@12.
VERSION = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
REFERENCE = rf"{NAME}@{VERSION}"

CD = "iso"
FORMATS = ("qcow2", "raw", CD)
"""What the file of an image may be; a disk is made from no CD."""


class CopyState(StrEnum):
    """A copy is used while it is there; half a copy is none."""

    IMPORTING = "importing"
    THERE = "there"
    LEAVING = "leaving"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCopy:
    """An image in a storage pool of a host. ``verified_at`` is when its bytes were compared there
    (Unix seconds); 0 before that.
    """

    id: str
    image: str
    host: str
    pool: str
    state: CopyState = CopyState.IMPORTING
    verified_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord:
    """One version of an image; what is in it never changes. ``source`` is the file's name.

    ``virtual_bytes`` is the disk that a guest sees, ``file_bytes`` the file. ``copies`` are those
    that are not gone. A retired image is not used for new VMs. Times are Unix seconds.
    """

    id: str
    name: str
    version: str
    format: str
    virtual_bytes: int
    file_bytes: int
    sha256: str
    source: str
    created_at: float
    retired_at: float | None = None
    copies: tuple[ImageCopy, ...] = ()

    @property
    def reference(self) -> str:
        """``cad@12``."""
        return f"{self.name}@{self.version}"

    @property
    def volume(self) -> str:
        """The volume of every copy. It carries our id, so that nobody else's has that name."""
        return f"{self.reference}-{self.id[:8]}.{self.format}"

    def copy(self, host: str, pool: str) -> ImageCopy | None:
        """The copy in that pool."""
        return next((each for each in self.copies if (each.host, each.pool) == (host, pool)), None)

    def pools(self, host: str) -> tuple[str, ...]:
        """The storage pools of a host where it may be used."""
        return tuple(
            each.pool for each in self.copies if each.host == host and each.state is CopyState.THERE
        )


def next_version(versions: list[str]) -> str:
    """The next version: one more than the highest number among the versions that are numbers."""
    return str(max((int(each) for each in versions if each.isdecimal()), default=0) + 1)


def split_reference(text: str) -> tuple[str, str] | None:
    """Name and version of ``cad@12``; None for anything else."""
    if re.fullmatch(REFERENCE, text) is None:
        return None
    name, _, version = text.partition("@")
    return name, version
