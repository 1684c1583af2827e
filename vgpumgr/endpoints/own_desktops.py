"""The endpoints of a user's own desktops: which the caller has or may have, and their release."""

from __future__ import annotations

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
    from vgpumgr.model.desktop import DesktopRecord, DesktopRequestRecord, PoolRecord


class OwnDesktop(TypedDict):
    """A pool that the caller may have a desktop of, and the one that the caller has: none while
    ``desktop`` is null. ``owned``: for good. ``waiting_since``: the caller is in line.
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


def list_own_desktops(context: CallContext, _: Nothing) -> Result[ItemList[OwnDesktop]]:
    """Pools in which the caller is entitled to a desktop, or has one."""
    reads, who = context.reads, context.who.principal
    desktops, asks = reads.desktops(), reads.pool_asks()
    items: list[OwnDesktop] = []
    for pool in reads.pools():
        mine = [each for each in desktops if each.pool == pool.id and _is_of(each, who.user)]
        ask = next((e for e in asks if e.pool == pool.id and e.ask.user == who.user), None)
        if mine or ask or pool.spec.entitlement.admits(who.user, who.groups):
            items += [_item(pool, each, ask) for each in mine] or [_item(pool, None, ask)]
    return Result(answer={"items": items})


def _is_of(row: DesktopRecord, user: str) -> bool:
    session = row.desktop.session
    return row.desktop.owner == user or (session is not None and session.user == user)


def _item(
    pool: PoolRecord, row: DesktopRecord | None, ask: DesktopRequestRecord | None
) -> OwnDesktop:
    session = row.desktop.session if row else None
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
        "waiting_since": ask.ask.since if ask else None,
    }


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
