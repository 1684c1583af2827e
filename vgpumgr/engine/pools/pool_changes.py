"""Pools resized, emptied, given a new image, and deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vgpumgr.engine.images.image_import import find
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.planning.disk_images import lies_nowhere, refuse_cd
from vgpumgr.engine.pools.protected_desktops import user_of
from vgpumgr.model.desktop import (
    PoolRecord,
    Rollout,
    RolloutPhase,
)
from vgpumgr.model.errors import Conflict, NotFound, UsageError
from vgpumgr.model.formats import spanned
from vgpumgr.model.pool import Size

_COMING = frozenset({RolloutPhase.CANARY, RolloutPhase.ROLLING})


def scale(
    context: EngineContext,
    name: str,
    *,
    least: int | None = None,
    spare: int | None = None,
    most: int | None = None,
) -> PoolRecord:
    """Change how many desktops there are; what is None stays."""

    def changed(pool: PoolRecord) -> PoolRecord:
        old = pool.spec.size
        size = Size(
            min=old.min if least is None else least,
            spare=old.spare if spare is None else spare,
            max=old.max if most is None else most,
        )
        if max(size.min, size.spare) > size.max or size.max < 1:
            raise UsageError(
                f"min {size.min}, spare {size.spare}, max {size.max} is not a size",
                why="max is 1 or more, and neither min nor spare is more than max",
                next=f"vgpumgr pool scale {name} --max {max(size.min, size.spare, 1)}",
            )
        return replace(pool, spec=replace(pool.spec, size=size))

    return _write(context, name, changed)


def drain(context: EngineContext, name: str, *, on: bool) -> PoolRecord:
    """Empty a pool as its users log off, or fill it again."""

    def changed(pool: PoolRecord) -> PoolRecord:
        if pool.leaving and not on:
            raise Conflict(f"pool {name} is being deleted", next=f"vgpumgr pool show {name}")
        return replace(pool, closing=on or pool.leaving)

    return _write(context, name, changed)


def leave(context: EngineContext, name: str) -> PoolRecord:
    """Delete a pool with its desktops; Conflict while a desktop is in use."""

    def changed(pool: PoolRecord) -> PoolRecord:
        rows = [each for each in context.ledger.desktops() if each.pool == pool.id]
        used = [each for each in rows if each.desktop.used]
        if used:
            users = sorted({user_of(each) for each in used})
            raise Conflict(
                f"pool {name} is in use: {spanned([each.name for each in used])}",
                why=f"by {spanned(users)}",
                next=f"vgpumgr pool drain {name}, then vgpumgr pool delete {name} "
                "when they have logged off",
            )
        gone = None if rows else context.clock.now()
        return replace(pool, closing=True, leaving=True, closed_at=gone)

    return _write(context, name, changed)


def push_image(context: EngineContext, name: str, image: str) -> PoolRecord:
    """Let a new image come: a canary first, then step by step."""

    def changed(pool: PoolRecord) -> PoolRecord:
        after = with_image(context, pool, image, again=True)
        had = {pool.image, pool.spec.image, pool.rollout.previous if pool.rollout else ""}
        if image not in had:
            _require_somewhere(context, pool, image)
        return after

    return _write(context, name, changed)


def _require_somewhere(context: EngineContext, pool: PoolRecord, reference: str) -> None:
    """NotFound for an image that lies on no host, unless one could not be asked."""
    known = next((each for each in context.ledger.images() if each.reference == reference), None)
    disk = pool.spec.desktop.disks[0]
    hosts = [each for each in context.ledger.hosts() if each.facts is not None]
    if known is not None:
        somewhere = any(disk.pool in known.pools(host.name) for host in hosts)
        volume = known.volume
    else:
        volume = f"{reference}.qcow2"
        somewhere = not lies_nowhere(disk.pool, volume, hosts, context.hosts, context.lanes)
    if not somewhere:
        raise NotFound(
            f"image {reference} is on no host",
            why=f"none has it in storage pool {disk.pool}"
            + ("" if known else f", nor is it an image of the fleet: {volume} was looked for"),
            next="vgpumgr image list; vgpumgr image import brings one to the hosts",
        )


def with_image(
    context: EngineContext, pool: PoolRecord, image: str, *, again: bool = False
) -> PoolRecord:
    """The pool with a rollout of a new image; the previous image rolls back a rollout under way.

    The present image changes nothing; with ``again`` a stopped rollout is tried once more. A pool
    without desktops takes the image at once: there is no desktop to try it on.
    """
    if not any(each.pool == pool.id for each in context.ledger.desktops()):
        if image != pool.image:
            refuse_image(context, image)
        return replace(pool, spec=replace(pool.spec, image=image), rollout=None)
    rollout = pool.rollout
    coming = rollout is not None and rollout.phase in _COMING
    asked = replace(pool, spec=replace(pool.spec, image=image))
    if rollout is not None and coming and image == rollout.previous:
        back = replace(rollout, phase=RolloutPhase.BACK, why="it was rolled back by request")
        return replace(asked, rollout=back)
    stopped = again and rollout is not None and not coming and image == rollout.image
    if image == pool.image or (image == pool.spec.image and not stopped):
        return asked
    if rollout is not None and (coming or _lingers(context, pool, rollout)):
        raise Conflict(
            f"{rollout.image} is still "
            f"{'being rolled out to' if coming else 'being rolled back from'} "
            f"pool {pool.name}",
            why=f"its phase is {rollout.phase}",
            next=f"vgpumgr pool push-image {pool.name} {rollout.previous} rolls it back"
            if coming
            else f"vgpumgr pool show {pool.name}; push again when it is rolled back",
        )
    refuse_image(context, image)
    now = context.clock.now()
    return replace(asked, rollout=Rollout(image=image, previous=pool.image, since=now))


def refuse_image(context: EngineContext, reference: str) -> None:
    """NotFound for a version that an image does not have, Conflict for a retired version.

    Where no image has that name, it is the name of a volume on the hosts.
    """
    images = context.ledger.images()
    if not any(reference.startswith(f"{each.name}@") for each in images):
        return
    found = find(images, reference)
    refuse_cd(found, "each desktop")
    if found.retired_at is not None:
        raise Conflict(f"image {reference} is retired", next="vgpumgr image list")


def _lingers(context: EngineContext, pool: PoolRecord, rollout: Rollout) -> bool:
    """Are there desktops of an image that is being rolled back?"""
    return rollout.phase is RolloutPhase.BACK and any(
        each.pool == pool.id and each.desktop.image == rollout.image
        for each in context.ledger.desktops()
    )


def _write(
    context: EngineContext, name: str, changed: Callable[[PoolRecord], PoolRecord]
) -> PoolRecord:
    def attempt() -> PoolRecord:
        before = context.ledger.pool(name)
        after = changed(before)
        if after != before:
            context.ledger.put_pool(after)
        return after

    return until_current(attempt)
