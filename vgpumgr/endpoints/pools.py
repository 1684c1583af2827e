"""The endpoints of pools: list, show, sessions, next turn, size, drain, image, delete; and of
their desktops: assign, release.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.figure_items import vms_hour
from vgpumgr.endpoints.pool_items import (
    PoolItem,
    PoolTurn,
    WholePool,
    pool_item,
    pool_now,
    profile_disk_item,
    turn_of_pool,
    whole_pool,
)
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.endpoints.tags import pool_tag
from vgpumgr.endpoints.top import part_figures
from vgpumgr.model.codec import to_plain
from vgpumgr.model.desktop import PoolRecord
from vgpumgr.model.errors import UsageError
from vgpumgr.model.pool import MAX_DESKTOPS
from vgpumgr.model.scoped_reads import ScopedReads

User = Annotated[str, ParameterLimits(min_length=1, max_length=255)]
Count = Annotated[int, ParameterLimits(ge=0, le=MAX_DESKTOPS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePool:
    """A pool by its name."""

    name: Name


def list_pools(context: CallContext, _: Nothing) -> Result[ItemList[PoolItem]]:
    """The pools with their desktops counted."""
    reads = context.reads
    desktops, asks = reads.desktops(), reads.pool_asks()
    items = [pool_item(each, desktops, asks) for each in reads.pools()]
    return Result(answer={"items": items})


def show_pool(context: CallContext, asked: OnePool) -> Result[WholePool]:
    """One pool."""
    item, reads = whole_pool(context.reads, asked.name), context.reads
    pool = reads.pool(asked.name)
    id_ = pool.id
    item["expected_logins"] = _expected(reads, pool)
    rows = [row for row in reads.desktops() if row.pool == id_]
    item["profile_disks"] = [
        profile_disk_item(each, rows)
        for each in context.app.engine.ledger.profile_disks()
        if (each.tenant, each.pool) == (pool.spec.desktop.tenant, pool.name)
    ]
    hosts = [row.desktop.host for row in rows if row.desktop.host]
    item["now"] = pool_now(rows, part_figures(context, hosts))
    item["hour"] = vms_hour(context.app, [row.vm_id for row in rows if row.vm_id])
    return Result(answer=item)


def _expected(reads: ScopedReads, pool: PoolRecord) -> int | None:
    """How many users will probably come soon; None where the pool does not learn that."""
    from vgpumgr.engine.desktops.learned_hours import LOOK_BACK_S, MOST_LOGINS, expected_logins

    if not pool.spec.learned_hours:
        return None
    now = time.time()
    past = reads.pool_sessions(pool.id, MOST_LOGINS, now - LOOK_BACK_S)
    logins = sorted(each.since for each in past)
    return expected_logins(logins, now, pool.spec.prewarm_s, pool.spec.zone)


class SessionItem(TypedDict):
    """A session on a desktop, one that is open or was; ``why`` it ended."""

    name: str
    desktop: str
    user: str
    since: Time
    booking: str
    why: str
    closed_at: Time | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHistory:
    """The ``last`` sessions of a pool, of all that are open or ended after ``since`` (Unix
    seconds).
    """

    name: Name
    last: Annotated[int, ParameterLimits(ge=1, le=100_000)] = 50
    since: Annotated[float, ParameterLimits(ge=0)] = 0.0


def list_sessions(context: CallContext, asked: PoolHistory) -> Result[ItemList[SessionItem]]:
    """The sessions, the newest first."""
    reads = context.reads
    sessions = reads.pool_sessions(reads.pool(asked.name).id, asked.last, asked.since)
    items: list[Any] = [{"name": each.desktop, **to_plain(each)} for each in sessions]
    return Result(answer={"items": items})


def explain_pool(context: CallContext, asked: OnePool) -> Result[PoolTurn]:
    """Who waits and why, what could start, and what the next cycle would do."""
    context.require_pool(asked.name)
    found = context.app.engine.pool_outlook(asked.name)
    return Result(answer=turn_of_pool(asked.name, found))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePool:
    """New sizes of a pool; null leaves one as it is."""

    name: Name
    min: Count | None = None
    spare: Count | None = None
    max: Count | None = None


class PoolSizeItem(TypedDict):
    """The sizes of a pool: how many desktops at least, ready for nobody yet, and at most."""

    name: str
    min: int
    spare: int
    max: int


def scale_pool(context: CallContext, asked: ScalePool) -> Result[PoolSizeItem]:
    """Change how many desktops there are to be; one in use is never deleted for it."""
    context.require_pool(asked.name)
    engine = context.app.engine
    done = engine.scale_pool(asked.name, least=asked.min, spare=asked.spare, most=asked.max)
    size = done.spec.size
    return Result(
        answer={"name": asked.name, "min": size.min, "spare": size.spare, "max": size.max}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPool:
    """A pool to drain: its users log off in their own time. ``off``: no longer."""

    name: Name
    off: bool = False


class PoolState(TypedDict):
    """A pool is ``open``, ``draining``, ``leaving`` (with its last desktop) or ``gone``."""

    name: str
    state: str


def drain_pool(context: CallContext, asked: DrainPool) -> Result[PoolState]:
    """Drain it, or end that."""
    context.require_pool(asked.name)
    context.app.engine.drain_pool(asked.name, on=not asked.off)
    return Result(answer={"name": asked.name, "state": "open" if asked.off else "draining"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PushImage:
    """An image with its version (``cad@12``) for a pool."""

    name: Name
    image: Name


class PushedImage(TypedDict):
    """What has become of an image that was pushed; ``phase`` null: the pool has it already."""

    name: str
    image: str
    phase: str | None


def push_image(context: CallContext, asked: PushImage) -> Result[PushedImage]:
    """Roll the image out, one desktop first; the image before rolls a running rollout back."""
    from vgpumgr.spec.pool_document import is_image

    if not is_image(asked.image):
        raise UsageError(f"{asked.image!r} is not an image with its version: like cad@12")
    context.require_pool(asked.name)
    rollout = context.app.engine.push_image(asked.name, asked.image).rollout
    return Result(
        answer={
            "name": asked.name,
            "image": rollout.image if rollout else asked.image,
            "phase": str(rollout.phase) if rollout else None,
        }
    )


def delete_pool(context: CallContext, asked: OnePool) -> Result[PoolState]:
    """Delete a pool that nobody uses; `serve` deletes its desktops."""
    context.require_pool(asked.name)
    left = context.app.engine.delete_pool(asked.name)
    return Result(answer={"name": asked.name, "state": "gone" if left.closed_at else "leaving"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignDesktop:
    """A user, with groups, who is to have a desktop of a pool."""

    name: Name
    user: User
    groups: tuple[User, ...] = ()


class AssignmentItem(TypedDict):
    """The desktop that a user has, or what the user waits for."""

    name: str
    pool: str
    user: str
    desktop: str | None
    host: str | None
    waits: str | None


def assign_desktop(context: CallContext, asked: AssignDesktop) -> Result[AssignmentItem]:
    """Give the user a desktop, or queue the user for one."""
    context.require_pool(asked.name)
    given = context.app.engine.assign_desktop(asked.name, asked.user, asked.groups)
    return Result(
        answer={
            "name": given.desktop or given.user,
            "pool": given.pool,
            "user": given.user,
            "desktop": given.desktop or None,
            "host": given.host or None,
            "waits": given.waits or None,
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDesktop:
    """A user whose session in a pool ends, or waiting; ``for_good``: what the user owns is deleted,
    with its disks.
    """

    name: Name
    user: User
    for_good: bool = False


class Released(TypedDict):
    """The desktops that a user has released; none where the user only waited."""

    name: str
    user: str
    desktops: list[str]


def release_desktop(context: CallContext, asked: ReleaseDesktop) -> Result[Released]:
    """End sessions and waiting; a user at work is told in the guest."""
    context.require_pool(asked.name)
    engine = context.app.engine
    ended = engine.release_desktop(asked.name, asked.user, for_good=asked.for_good, tell=True)
    desktops = [each.name for each in ended]
    return Result(answer={"name": asked.name, "user": asked.user, "desktops": desktops})


LIST_POOLS = Endpoint(
    name="pool.list",
    method=HttpMethod.GET,
    path="/pools",
    permission=Permission.POOL_READ,
    summary="Pools with their desktops counted.",
    asks=Nothing,
    answers=ItemList[PoolItem],
    kind="PoolList",
    work=list_pools,
    scoped=True,
)
SHOW_POOL = Endpoint(
    name="pool.show",
    method=HttpMethod.GET,
    path="/pools/{name}",
    permission=Permission.POOL_READ,
    summary="A pool with its desktops, their users, and who waits.",
    asks=OnePool,
    answers=WholePool,
    kind="Pool",
    tag=pool_tag,
    work=show_pool,
    scoped=True,
)
LIST_SESSIONS = Endpoint(
    name="pool.history",
    method=HttpMethod.GET,
    path="/pools/{name}/sessions",
    permission=Permission.POOL_READ,
    summary="Sessions of a pool, the newest first.",
    asks=PoolHistory,
    answers=ItemList[SessionItem],
    kind="SessionList",
    work=list_sessions,
    scoped=True,
)
EXPLAIN_POOL = Endpoint(
    name="pool.explain",
    method=HttpMethod.GET,
    path="/pools/{name}/turn",
    permission=Permission.POOL_READ,
    summary="Who waits and why, and what the next reconcile cycle of a pool would do.",
    asks=OnePool,
    answers=PoolTurn,
    kind="PoolTurn",
    work=explain_pool,
    runs=Runs.WORKER,
    scoped=True,
)
SCALE_POOL = Endpoint(
    name="pool.scale",
    method=HttpMethod.POST,
    path="/pools/{name}:scale",
    permission=Permission.POOL_WRITE,
    summary="Change the sizes of a pool.",
    asks=ScalePool,
    answers=PoolSizeItem,
    kind="PoolSize",
    work=scale_pool,
    runs=Runs.WORKER,
    scoped=True,
)
DRAIN_POOL = Endpoint(
    name="pool.drain",
    method=HttpMethod.POST,
    path="/pools/{name}:drain",
    permission=Permission.POOL_WRITE,
    summary="Drain a pool, or end that.",
    asks=DrainPool,
    answers=PoolState,
    kind="PoolState",
    work=drain_pool,
    runs=Runs.WORKER,
    scoped=True,
)
PUSH_IMAGE = Endpoint(
    name="pool.push-image",
    method=HttpMethod.POST,
    path="/pools/{name}:push-image",
    permission=Permission.POOL_WRITE,
    summary="Roll a new image out to a pool.",
    asks=PushImage,
    answers=PushedImage,
    kind="PushedImage",
    work=push_image,
    runs=Runs.WORKER,
    scoped=True,
)
DELETE_POOL = Endpoint(
    name="pool.delete",
    method=HttpMethod.DELETE,
    path="/pools/{name}",
    permission=Permission.POOL_WRITE,
    summary="Delete a pool that nobody uses, with its desktops.",
    asks=OnePool,
    answers=PoolState,
    kind="PoolState",
    tag=pool_tag,
    work=delete_pool,
    runs=Runs.WORKER,
    scoped=True,
)
ASSIGN_DESKTOP = Endpoint(
    name="pool.assign",
    method=HttpMethod.POST,
    path="/pools/{name}:assign",
    permission=Permission.POOL_ASSIGN,
    summary="Assign a desktop of a pool to a user, or queue the user for one.",
    asks=AssignDesktop,
    answers=AssignmentItem,
    kind="Assignment",
    work=assign_desktop,
    runs=Runs.WORKER,
    scoped=True,
)
RELEASE_DESKTOP = Endpoint(
    name="pool.release",
    method=HttpMethod.POST,
    path="/pools/{name}:release",
    permission=Permission.POOL_ASSIGN,
    summary="End a user's session in a pool, or waiting.",
    asks=ReleaseDesktop,
    answers=Released,
    kind="Released",
    work=release_desktop,
    runs=Runs.WORKER,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (
    LIST_POOLS,
    SHOW_POOL,
    LIST_SESSIONS,
    EXPLAIN_POOL,
    SCALE_POOL,
    DRAIN_POOL,
    PUSH_IMAGE,
    DELETE_POOL,
    ASSIGN_DESKTOP,
    RELEASE_DESKTOP,
)
