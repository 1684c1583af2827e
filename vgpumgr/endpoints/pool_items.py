"""Pools of desktops in JSON: their desktops and sessions, their next cycle, what a file changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from vgpumgr.endpoints.figure_items import Hour, PartNow
from vgpumgr.endpoints.host_looks import look_item
from vgpumgr.endpoints.shapes import Time
from vgpumgr.model.codec import to_plain
from vgpumgr.model.desktop import DesktopRecord, DesktopRequestRecord, PoolRecord
from vgpumgr.model.profile_disk import ProfileDisk

if TYPE_CHECKING:
    from vgpumgr.engine.pools.pool_apply import PoolChange
    from vgpumgr.engine.pools.pool_cycle import PoolForecast
    from vgpumgr.model.host import HostRecord
    from vgpumgr.model.scoped_reads import ScopedReads


class RolloutItem(TypedDict):
    """A new ``image`` that replaces ``previous``; ``why`` it was stopped."""

    image: str
    previous: str
    since: Time
    phase: str
    why: str


class PoolItem(TypedDict):
    """A pool with its desktops counted; ``per_user`` is how many one user may have."""

    name: str
    state: str
    image: str
    rollout: RolloutItem | None
    assignment: str
    profile: str
    tenant: str
    names: str
    min: int
    spare: int
    max: int
    priority: int
    desktops: int
    ready: int
    used: int
    free: int
    coming: int
    broken: int
    waiting: int
    users: list[str]
    groups: list[str]
    per_user: int


class DesktopItem(TypedDict):
    """A desktop: ``user`` is on it (``disconnected_at`` since when not looking), ``owner`` has it
    for good. ``doing`` is what is being done with it. The look is that at its host.
    """

    name: str
    state: str
    doing: str | None
    image: str
    host: str | None
    seen_s: float | None
    stale: bool
    stale_why: str
    user: str | None
    session_since: Time | None
    disconnected_at: Time | None
    owner: str | None
    since: Time
    failures: int
    why: str


class DesktopMove(TypedDict):
    """A move of a desktop that waits until ``user`` has logged off."""

    name: str
    to: str
    user: str
    why: str


class WaitingUser(TypedDict):
    """A user who waits for a desktop."""

    user: str
    since: Time


class PoolNow(TypedDict):
    """What the ``measured`` desktops of a pool do now: on average the share of its GPU that each
    takes, and of the ``busiest``; their memory in all. ``unlicensed`` are those whose guests say
    that they have no licence.
    """

    measured: int
    utilization: float | None
    busiest: str
    memory_used_bytes: int
    memory_total_bytes: int
    unlicensed: list[str]


class ProfileDiskItem(TypedDict):
    """A user's own disk, and the desktop that has it; null: none has. ``volume`` is POOL/NAME."""

    user: str
    volume: str
    size_bytes: int
    desktop: str | None


class WholePool(PoolItem):
    """A pool with its desktops, their moves that wait, and who waits for one; ``now`` null: they
    were not asked lately what they do. ``hour``: the share of its GPU that each desktop took on
    average, in each minute of the last hour, the oldest first. ``expected_logins``: how many users
    will probably come while a desktop is being made; null: the pool does not learn that.
    """

    expected_logins: int | None
    now: PoolNow | None
    hour: Hour
    items: list[DesktopItem]
    moves: list[DesktopMove]
    asks: list[WaitingUser]
    profile_disks: list[ProfileDiskItem]


def profile_disk_item(disk: ProfileDisk, rows: Iterable[DesktopRecord]) -> ProfileDiskItem:
    """The JSON of a user's own disk."""
    named = {row.vm_id: row.name for row in rows if row.vm_id}
    return {
        "user": disk.user,
        "volume": f"{disk.storage_pool}/{disk.volume}",
        "size_bytes": disk.size_bytes,
        "desktop": named.get(disk.vm_id),
    }


def pool_item(
    pool: PoolRecord, desktops: Iterable[DesktopRecord], asks: Iterable[DesktopRequestRecord]
) -> PoolItem:
    """The JSON of a pool, its desktops counted."""
    mine = [each.desktop for each in desktops if each.pool == pool.id]
    waiting = [each.ask for each in asks if each.pool == pool.id]
    spec, rollout = pool.spec, pool.rollout
    return {
        "name": pool.name,
        "state": "leaving" if pool.leaving else "draining" if pool.closing else "open",
        "image": pool.image,
        "rollout": to_plain(rollout) if rollout else None,
        "assignment": str(spec.kind),
        "profile": spec.profile,
        "tenant": spec.desktop.tenant,
        "names": str(spec.naming),
        "min": spec.size.min,
        "spare": spec.size.spare,
        "max": spec.size.max,
        "priority": spec.priority,
        "desktops": len(mine),
        "ready": sum(each.ready for each in mine),
        "used": sum(each.used for each in mine),
        "free": sum(each.free for each in mine),
        "coming": sum(each.coming for each in mine),
        "broken": sum(each.broken for each in mine),
        "waiting": len(waiting),
        "users": sorted(spec.entitlement.users),
        "groups": sorted(spec.entitlement.groups),
        "per_user": spec.entitlement.per_user,
    }


def desktop_item(row: DesktopRecord, host: HostRecord | None = None) -> DesktopItem:
    """The JSON of a desktop, with the last look at its host."""
    look = look_item(host)
    stale = bool(row.desktop.host) and look["stale"]
    it, session = row.desktop, row.desktop.session
    return {
        "name": it.name,
        "state": str(it.state),
        "doing": str(row.doing) if row.doing else None,
        "image": it.image,
        "host": it.host or None,
        "seen_s": look["seen_s"],
        "stale": stale,
        "stale_why": look["stale_why"] if stale else "",
        "user": session.user if session else None,
        "session_since": session.since if session else None,
        "disconnected_at": session.disconnected if session else None,
        "owner": it.owner or None,
        "since": it.since,
        "failures": it.failures,
        "why": row.why,
    }


def whole_pool(reads: ScopedReads, name: str) -> WholePool:
    """The JSON of a pool with its desktops and who waits. Raises NotFound."""
    found = reads.pool(name)
    desktops, asks = reads.desktops(), reads.pool_asks()
    hosts = {host.name: host for host in reads.hosts()}
    return {
        **pool_item(found, desktops, asks),
        "expected_logins": None,
        "now": None,
        "hour": [],
        "profile_disks": [],
        "items": [
            desktop_item(each, hosts.get(each.desktop.host))
            for each in desktops
            if each.pool == found.id
        ],
        "moves": [
            {"name": each.vm, "to": each.host, "user": each.user, "why": each.why}
            for each in reads.logoff_moves()
            if any(row.pool == found.id and row.name == each.vm for row in desktops)
        ],
        "asks": [
            {"user": each.ask.user, "since": each.ask.since}
            for each in asks
            if each.pool == found.id
        ],
    }


def pool_now(
    desktops: Iterable[DesktopRecord], parts: Mapping[tuple[str, str], PartNow]
) -> PoolNow | None:
    """The JSON of what a pool's desktops do, by what their parts measured (VM's id, device)."""
    names = {row.vm_id: row.name for row in desktops if row.vm_id}
    mine = [(names[vm], now) for (vm, _), now in parts.items() if vm in names]
    shares = [(now["utilization"], name) for name, now in mine if now["utilization"] is not None]
    if not mine:
        return None
    return {
        "measured": len({name for name, _ in mine}),
        "utilization": round(sum(share for share, _ in shares) / len(shares), 4)
        if shares
        else None,
        "busiest": max(shares)[1] if shares else "",
        "memory_used_bytes": sum(now["memory_used_bytes"] or 0 for _, now in mine),
        "memory_total_bytes": sum(now["memory_total_bytes"] or 0 for _, now in mine),
        "unlicensed": sorted({name for name, now in mine if now["licensed"] is False}),
    }


class PoolCountsItem(TypedDict):
    """A pool in numbers: ``startable`` desktops could be started beside the ``spare`` ones."""

    used: int
    spare: int
    coming: int
    broken: int
    wanted: int
    startable: int
    waiting: int


class UserWaits(TypedDict):
    """Why a user waits."""

    user: str
    why: str


class PoolWarningItem(TypedDict):
    """Something to act on; ``code`` is stable."""

    code: str
    text: str


class PoolActionItem(TypedDict):
    """One thing that is done with a desktop."""

    do: str
    desktop: str
    user: str
    why: str


class PoolTrigger(TypedDict):
    """A metric by which the pool scales: its ``mean`` now over the ``told`` desktops that told it,
    and how many desktops it asks for. Shares are from 0 to 1.
    """

    metric: str
    threshold: float
    mean: float | None
    told: int
    wanted: int


class PoolTurn(TypedDict):
    """A pool's next reconcile cycle; ``refused`` is why no further desktop could be created.
    ``expected_logins`` as in a pool.
    """

    name: str
    counts: PoolCountsItem
    waits: list[UserWaits]
    warnings: list[PoolWarningItem]
    refused: str
    expected_logins: int | None
    triggers: list[PoolTrigger]
    actions: list[PoolActionItem]


def turn_of_pool(name: str, found: PoolForecast) -> PoolTurn:
    """The JSON of a pool's next cycle."""
    turn = found.turn
    return {
        "name": name,
        "counts": to_plain(turn.counts),
        "waits": [{"user": user, "why": why} for user, why in found.waits.items()],
        "warnings": to_plain(turn.warnings),
        "refused": found.refused,
        "expected_logins": found.expected,
        "triggers": to_plain(found.triggers),
        "actions": [
            {"do": str(each.do), "desktop": each.desktop, "user": each.user, "why": each.why}
            for each in turn.actions
        ],
    }


class PoolChangeItem(TypedDict):
    """What a document changes of a pool (``new``: all of it), a line each."""

    pool: str
    new: bool
    changes: list[str]
    warnings: list[str]


class PoolChanges(TypedDict):
    """What documents change of pools: ``changes`` counts the pools."""

    name: str
    changes: int
    pools: list[PoolChangeItem]


def pool_changes(changes: Sequence[PoolChange]) -> PoolChanges:
    """The JSON of what documents change of pools."""
    pools: Any = [to_plain(each) for each in changes]
    return {"name": "pools", "changes": sum(each.any for each in changes), "pools": pools}
