"""Copies of image versions on hosts: their users, their targets, and the reservation of them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vgpumgr.engine.inventory.host_supply import unread
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.steps.image_steps import ImportImage
from vgpumgr.engine.storage.shared_storage import SHARED_KINDS
from vgpumgr.image_inspection import MOST_BYTES, Inspected
from vgpumgr.model.desktop import PoolRecord, Rollout, RolloutPhase
from vgpumgr.model.domain import DiskType
from vgpumgr.model.errors import Conflict
from vgpumgr.model.formats import size_words
from vgpumgr.model.host import HostRecord
from vgpumgr.model.image import CopyState, ImageCopy, ImageRecord, next_version
from vgpumgr.model.operation import IMPORT, Reservation
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import VmRecord


def users(
    image: ImageRecord, vms: Iterable[VmRecord], copy: ImageCopy | None = None
) -> tuple[str, ...]:
    """The VMs whose disks lie over the image, or over this copy of it, or that have it in a drive;
    VMs that move there included.
    """
    return tuple(
        vm.name
        for vm in vms
        if (copy is None or copy.host in _hosts(vm))
        for pool in (None if copy is None else copy.pool,)
        if any(
            volume == image.volume and pool in {None, where}
            for where, volume in vm.spec.needed_images
        )
    )


def pools_of(image: ImageRecord, pools: Iterable[PoolRecord]) -> tuple[str, ...]:
    """The pools whose desktops are created from the image, or would be after a rollback."""
    return tuple(
        pool.name
        for pool in pools
        if image.reference in {pool.spec.image, *(_of(pool.rollout) if pool.rollout else ())}
    )


def _of(rollout: Rollout) -> tuple[str, ...]:
    """The images of a pool: once all desktops have the new image, the former counts no more."""
    return (
        (rollout.image,)
        if rollout.phase is RolloutPhase.DONE
        else (rollout.image, rollout.previous)
    )


def _hosts(vm: VmRecord) -> frozenset[str]:
    return frozenset({vm.host, *([vm.moving_to.host] if vm.moving_to else ())})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageImport:
    """An image file to import, and the hosts that get a copy of it.

    ``path`` is the file's absolute path on this machine, empty where it is known and not here;
    ``called`` is its name for people where that is another; ``version`` empty: the version with
    these bytes, or the next; ``hosts`` empty: every host that can have it.
    """

    path: str
    name: str
    called: str = ""
    version: str = ""
    format: str = "qcow2"
    hosts: tuple[str, ...] = ()
    pool: str = "default"
    most_bytes: int = MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFileFacts:
    """An image file as inspected, and the digest of its bytes."""

    inspected: Inspected
    sha256: str


def chosen_version(
    request: ImageImport,
    found: ImageFileFacts,
    images: Iterable[ImageRecord],
    opening: OperationOpening,
) -> ImageRecord:
    """The version that is requested, known or new; Conflict where it is known as another file."""
    versions = [each for each in images if each.name == request.name]
    for each in reversed(versions):
        same = each.sha256 == found.sha256 and each.format == found.inspected.format
        if request.version == each.version:
            _require_same(each, found, same=same)
            return each
        if not request.version and same and each.retired_at is None:
            return each
    return ImageRecord(
        id=opening.new_uuid(),
        name=request.name,
        version=request.version or next_version([each.version for each in versions]),
        format=found.inspected.format,
        virtual_bytes=found.inspected.virtual_bytes,
        file_bytes=found.inspected.file_bytes,
        sha256=found.sha256,
        source=posixpath.basename(request.called or request.path),
        created_at=opening.now,
    )


def _require_same(known: ImageRecord, found: ImageFileFacts, *, same: bool) -> None:
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
    if there.kind in SHARED_KINDS or not there.path or there.disk_type is not DiskType.FILE:
        return f"its storage pool {pool} is of kind {there.kind}, not a folder of its own"
    if there.available_bytes < file_bytes:
        free, needed = size_words(there.available_bytes), size_words(file_bytes)
        return f"its storage pool {pool} has {free} free, {needed} are needed"
    return ""


def reservation(
    image: ImageRecord,
    hosts: Sequence[str],
    request: ImageImport,
    opening: OperationOpening,
    *,
    is_new: bool,
) -> Reservation:
    """The transaction of an import."""
    operation = opening.operation("image import")
    step = ImportImage(
        pool=request.pool,
        volume=image.volume,
        source=request.path,
        file_bytes=image.file_bytes,
        sha256=image.sha256,
    )
    copies = tuple(_copies(image, hosts, request.pool, opening))
    tasks = (opening.copy_task(operation, IMPORT, step, copy, image.reference) for copy in copies)
    return Reservation(
        operation=operation,
        tasks=tuple(tasks),
        images=(image,) if is_new else (),
        copies=copies,
    )


def _copies(
    image: ImageRecord, hosts: Sequence[str], pool: str, opening: OperationOpening
) -> Iterator[ImageCopy]:
    """New copies, and copies to make anew that were deleted by hand."""
    for host in hosts:
        lost = image.copy(host, pool)
        fresh = lost or ImageCopy(id=opening.new_uuid(), image=image.id, host=host, pool=pool)
        yield replace(fresh, state=CopyState.IMPORTING)


def targets(
    context: EngineContext, view: LedgerView, request: ImageImport, image: ImageRecord
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Hosts that lack the image, and hosts that cannot have it; Conflict for a named one."""
    asked = [host for host in view.hosts if not request.hosts or host.name in request.hosts]
    lost = _lost(context, view, request, image)
    hosts, left_out = [], {}
    for host in asked:
        copy = image.copy(host.name, request.pool)
        if copy is not None and copy.state is CopyState.THERE and host.name not in lost:
            continue
        why = obstacle(host, request.pool, image.file_bytes)
        if copy is not None and copy.state is not CopyState.THERE:
            why = f"its copy is {copy.state}: vgpumgr operation list"
        if why:
            left_out[host.name] = why
        else:
            hosts.append(host.name)
    if not asked:
        raise Conflict("there is no host to copy images to", next="vgpumgr host add")
    if left_out and (request.hosts or len(left_out) == len(asked)):
        name, why = next(iter(left_out.items()))
        raise Conflict(
            f"image {image.reference} cannot be copied to {name}",
            why=why,
            next=f"vgpumgr host show {name}, or --host and --pool for other places",
        )
    return tuple(hosts), left_out


def _lost(
    context: EngineContext, view: LedgerView, request: ImageImport, image: ImageRecord
) -> frozenset[str]:
    """The hosts without the copy that the ledger lists: it was deleted by hand."""
    work = {
        host.name: partial(_is_gone, context.hosts.open(host), request.pool, image.volume)
        for host in view.hosts
        if request.pool in image.pools(host.name)
        and (not request.hosts or host.name in request.hosts)
    }
    return frozenset(name for name, gone in context.lanes.run(work).items() if gone is True)


def _is_gone(host: Host, pool: str, volume: str) -> bool:
    return host.storage.look(pool, volume) is None
