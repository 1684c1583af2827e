"""What an import writes, and where it may go. Pure but for the ids, which come from the caller."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.migration.disks import SHARED_KINDS
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.steps import ImportImage
from vgpumgr.engine.supply import unread
from vgpumgr.images import MOST_BYTES, Inspected
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostRecord
from vgpumgr.model.image import CopyState, ImageCopy, ImageRecord, next_version
from vgpumgr.model.journal import IMPORT, Reservation
from vgpumgr.model.size import size_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """``path`` is the file's absolute path on this machine; ``version`` empty: the one that has
    these bytes, or the next; ``hosts`` empty: every one that can.
    """

    path: str
    name: str
    version: str = ""
    format: str = "qcow2"
    hosts: tuple[str, ...] = ()
    pool: str = "default"
    most_bytes: int = MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the file is."""

    inspected: Inspected
    sha256: str


def chosen(
    wish: Wish, found: Found, images: Iterable[ImageRecord], opening: Opening
) -> ImageRecord:
    """The version that is wished, known or new; Conflict where it is known as another file."""
    versions = [each for each in images if each.name == wish.name]
    for each in reversed(versions):
        same = each.sha256 == found.sha256 and each.format == found.inspected.format
        if wish.version == each.version:
            _require_same(each, found, same=same)
            return each
        if not wish.version and same and each.retired_at is None:
            return each
    return ImageRecord(
        id=opening.new_uuid(),
        name=wish.name,
        version=wish.version or next_version([each.version for each in versions]),
        format=found.inspected.format,
        virtual_bytes=found.inspected.virtual_bytes,
        file_bytes=found.inspected.file_bytes,
        sha256=found.sha256,
        source=posixpath.basename(wish.path),
        created_at=opening.now,
    )


def _require_same(known: ImageRecord, found: Found, *, same: bool) -> None:
    if known.retired_at is not None:
        raise Conflict(
            f"image {known.reference} is retired",
            why="a version is never reused",
            next="leave out --version to use the next one",
        )
    if not same:
        raise Conflict(
            f"image {known.reference} is another file",
            why=f"it has SHA-256 {known.sha256[:16]}…, this one {found.sha256[:16]}…",
            next="leave out --version to use the next one",
        )


def obstacle(host: HostRecord, pool: str, file_bytes: int) -> str:
    """Why a copy cannot be put into that pool of a host; empty where it can."""
    if host.maintenance:
        return "it is in maintenance"
    if host.probe_only:
        return "its helper is not installed"
    if why := unread(host):
        return why
    pools = {each.name: each for each in host.facts.pools} if host.facts else {}
    there = pools.get(pool)
    if there is None:
        return f"it has no storage pool {pool} (it has: {', '.join(sorted(pools)) or 'none'})"
    if not there.active:
        return f"its storage pool {pool} is not active"
    if there.kind in SHARED_KINDS or not there.path:
        return f"its storage pool {pool} is of kind {there.kind}, not a folder of its own"
    if there.available_bytes < file_bytes:
        free, needed = size_words(there.available_bytes), size_words(file_bytes)
        return f"its storage pool {pool} has {free} free, {needed} are needed"
    return ""


def reservation(
    image: ImageRecord, hosts: Sequence[str], wish: Wish, opening: Opening, *, is_new: bool
) -> Reservation:
    """Everything an import writes before its first effect."""
    operation = opening.operation("image import")
    step = ImportImage(
        pool=wish.pool,
        volume=image.volume,
        source=wish.path,
        file_bytes=image.file_bytes,
        sha256=image.sha256,
    )
    copies = tuple(_copies(image, hosts, wish.pool, opening))
    tasks = (opening.copy_task(operation, IMPORT, step, copy, image.reference) for copy in copies)
    return Reservation(
        operation=operation,
        tasks=tuple(tasks),
        images=(image,) if is_new else (),
        copies=copies,
    )


def _copies(
    image: ImageRecord, hosts: Sequence[str], pool: str, opening: Opening
) -> Iterator[ImageCopy]:
    """New ones, and those anew that somebody deleted."""
    for host in hosts:
        lost = image.copy(host, pool)
        fresh = lost or ImageCopy(id=opening.new_uuid(), image=image.id, host=host, pool=pool)
        yield replace(fresh, state=CopyState.IMPORTING)
