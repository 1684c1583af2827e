"""The endpoints of a user's own desktops: which the caller has or may have, and their release."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.pools import Released
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time

if TYPE_CHECKING:
    from vgpumgr.access.principal import Principal
    from vgpumgr.model.desktop import DesktopRecord, DesktopRequest, PoolRecord, PoolView
    from vgpumgr.model.scoped_reads import ScopedReads


class OwnBooking(TypedDict):
    """Desktops of a pool that are booked for a group of the caller's."""

    group: str
    count: int
    starts_at: Time
    ends_at: Time


class OwnDesktop(TypedDict):
    """A pool that the caller may have a desktop of, and the one that the caller has: none while
    ``desktop`` is null. ``owned``: for good. ``waiting_since``: the caller is in line, at
    ``position`` (1 is the next), ``why`` tells for what. ``bookings`` have not ended.
    """

    name: str
    pool: str
    state: str
    profile: str
    desktop: str | None
    desktop_state: str | None
    session_since: Time | None
    disconnected_at: Time | None
    owned: bool
    waiting_since: Time | None
    position: int | None
    why: str
    bookings: list[OwnBooking]


def list_own_desktops(context: CallContext, _: Nothing) -> Result[ItemList[OwnDesktop]]:
    """Pools in which the caller is entitled to a desktop, or has one."""
    who = context.who.principal
    seen = _SeenPools(context.reads, time.time())
    items: list[OwnDesktop] = []
    for pool in seen.pools:
        mine = [e for e in seen.rows if e.pool == pool.id and _is_of(e, who.user)]
        waits = any(e.pool == pool.id and e.ask.user == who.user for e in seen.asks)
        if mine or waits or pool.spec.entitlement.admits(who.user, who.groups):
            items += [_item(seen, pool, each, who) for each in mine or (None,)]
    return Result(answer={"items": items})


class _SeenPools:
    """The pools of the caller's tenants with all that decides who gets a desktop."""

    def __init__(self, reads: ScopedReads, now: float) -> None:
        self.pools, self.rows, self.asks = reads.pools(), reads.desktops(), reads.pool_asks()
        self.bookings, self.hosts, self.now = reads.bookings(), reads.hosts(), now

    def view(self, pool: PoolRecord) -> PoolView:
        """The pool as its controller sees it, but for what could be started."""
        from vgpumgr.engine.desktops.desktop_state import view_of

        return view_of(
            pool,
            pools=self.pools,
            rows=self.rows,
            asks=self.asks,
            bookings=self.bookings,
            hosts=self.hosts,
            startable=0,
            now=self.now,
        )


def _is_of(row: DesktopRecord, user: str) -> bool:
    session = row.desktop.session
    return row.desktop.owner == user or (session is not None and session.user == user)


def _item(
    seen: _SeenPools, pool: PoolRecord, row: DesktopRecord | None, who: Principal
) -> OwnDesktop:
    session, view = row.desktop.session if row else None, seen.view(pool)
    line = [each.user for each in sorted(view.asks, key=lambda each: (each.since, each.user))]
    ask = next((each for each in view.asks if each.user == who.user), None)
    return {
        "name": row.desktop.name if row else pool.name,
        "pool": pool.name,
        "state": "leaving" if pool.leaving else "draining" if pool.closing else "open",
        "profile": pool.spec.profile,
        "desktop": row.desktop.name if row else None,
        "desktop_state": str(row.desktop.state) if row else None,
        "session_since": session.since if session else None,
        "disconnected_at": session.disconnected if session else None,
        "owned": bool(row and row.desktop.owner),
        "waiting_since": ask.since if ask else None,
        "position": line.index(ask.user) + 1 if ask else None,
        "why": _why(view, ask) if ask else "",
        "bookings": [
            {
                "group": each.group,
                "count": each.count,
                "starts_at": each.start,
                "ends_at": each.end,
            }
            for each in view.bookings
            if each.group in who.groups and each.end > seen.now
        ],
    }


def _why(view: PoolView, ask: DesktopRequest) -> str:
    from vgpumgr.engine.desktops.pool_decision import AssignmentRefusal, assign

    found = assign(view, ask)
    return found.text if isinstance(found, AssignmentRefusal) else f"{found.desktop} comes next"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOwnDesktop:
    """The pool whose desktop the caller does not need any more."""

    name: Name


def release_own_desktop(context: CallContext, asked: ReleaseOwnDesktop) -> Result[Released]:
    """End the caller's own session, or place in line."""
    context.require_pool(asked.name)
    user = context.who.principal.user
    ended = context.app.engine.release_desktop(asked.name, user, for_good=False)
    desktops = [each.name for each in ended]
    return Result(answer={"name": asked.name, "user": user, "desktops": desktops})


LIST_OWN_DESKTOPS = Endpoint(
    name="desktop.mine",
    method=HttpMethod.GET,
    path="/desktops",
    permission=Permission.DESKTOP_CONNECT,
    summary="Pools in which the caller is entitled to a desktop, and the desktops the caller has.",
    asks=Nothing,
    answers=ItemList[OwnDesktop],
    kind="OwnDesktopList",
    work=list_own_desktops,
    scoped=True,
    personal=True,
)
RELEASE_OWN_DESKTOP = Endpoint(
    name="desktop.release",
    method=HttpMethod.POST,
    path="/pools/{name}:release-own",
    permission=Permission.DESKTOP_CONNECT,
    summary="End the caller's own session on a desktop of a pool, or the caller's place in line.",
    asks=ReleaseOwnDesktop,
    answers=Released,
    kind="DesktopRelease",
    work=release_own_desktop,
    runs=Runs.WORKER,
    scoped=True,
    personal=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_OWN_DESKTOPS, RELEASE_OWN_DESKTOP)
