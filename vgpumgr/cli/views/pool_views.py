"""Pools as printed: desktops, sessions, the next cycle of a pool, and what a file would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import fields, table
from vgpumgr.cli.views.ages import age
from vgpumgr.endpoints.host_looks import UNREACHABLE, look_item
from vgpumgr.model.codec import to_plain
from vgpumgr.model.desktop import DesktopRecord, DesktopRequestRecord, PastSession, PoolRecord
from vgpumgr.model.formats import counted, span_words

if TYPE_CHECKING:
    from vgpumgr.engine.pools.pool_apply import PoolChange
    from vgpumgr.engine.pools.pool_cycle import PoolForecast
    from vgpumgr.model.host import HostRecord
    from vgpumgr.model.ledger import Ledger


Item = dict[str, Any]


def pool_item(
    pool: PoolRecord, desktops: Iterable[DesktopRecord], asks: Iterable[DesktopRequestRecord]
) -> Item:
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


def desktop_item(row: DesktopRecord, host: HostRecord | None = None) -> Item:
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


def whole_pool(ledger: Ledger, name: str) -> Item:
    """The JSON of a pool with its desktops and who waits. Raises NotFound."""
    found = ledger.pool(name)
    desktops, asks = ledger.desktops(), ledger.pool_asks()
    hosts = {host.name: host for host in ledger.hosts()}
    return {
        **pool_item(found, desktops, asks),
        "items": [
            desktop_item(each, hosts.get(each.desktop.host))
            for each in desktops
            if each.pool == found.id
        ],
        "moves": [
            {"name": each.vm, "to": each.host, "user": each.user, "why": each.why}
            for each in ledger.logoff_moves()
            if any(row.pool == found.id and row.name == each.vm for row in desktops)
        ],
        "asks": [
            {"user": each.ask.user, "since": each.ask.since}
            for each in asks
            if each.pool == found.id
        ],
    }


def pool_text(item: Item) -> str:
    """A pool with its desktops and who waits."""
    head = fields(
        [
            ("Name", item["name"]),
            ("State", item["state"]),
            ("Image", image_text(item)),
            ("Profile", item["profile"]),
            ("Assignment", item["assignment"]),
            ("Size", f"min {item['min']}, spare {item['spare']}, max {item['max']}"),
            ("Desktops", counts_text(item)),
            ("Names", item["names"]),
            ("Tenant", item["tenant"]),
            ("Users", ", ".join(item["users"])),
            ("Groups", ", ".join(item["groups"])),
            ("Waiting", ", ".join(each["user"] for each in item["asks"])),
            *(
                ("Moves", f"{each['name']} to {each['to']} when {each['user']} logs off")
                for each in item["moves"]
            ),
        ]
    )
    rows = [_desktop_row(each) for each in item["items"]]
    titles = ["DESKTOP", "STATE", "USER", "IMAGE", "HOST", "SINCE", "WHY"]
    return f"{head}\n\n{table([titles, *rows])}" if rows else head


def _desktop_row(each: Item) -> list[str]:
    user = each["user"] or (f"({each['owner']})" if each["owner"] else "-")
    gone = " (disconnected)" if each["disconnected_at"] else ""
    state = f"{each['state']}: {each['doing']}" if each["doing"] else each["state"]
    if each["stale_why"] == UNREACHABLE:
        state = f"unknown ({state} {span_words(each['seen_s'] or 0.0)} ago)"
    where = each["host"] or "-"
    return [each["name"], state, user + gone, each["image"], where, age(each["since"]), each["why"]]


def counts_text(item: Item) -> str:
    """``7: 4 used, 2 free, 1 coming``."""
    words = ("used", "free", "coming", "broken")
    parts = [f"{item[each]} {each}" for each in words if item[each]]
    return f"{item['desktops']}{': ' if parts else ''}{', '.join(parts)}"


def image_text(item: Item) -> str:
    """The image, and one that comes or was stopped."""
    rollout = item["rollout"]
    if rollout is None or rollout["phase"] == "done":
        return str(item["image"])
    why = f": {rollout['why']}" if rollout["why"] else ""
    return f"{item['image']} ({rollout['image']}: {rollout['phase']}{why})"


def session_items(sessions: Sequence[PastSession]) -> list[Item]:
    """The JSON of sessions."""
    return [{"name": each.desktop, **to_plain(each)} for each in sessions]


def moved(before: Sequence[Item], after: Sequence[Item]) -> list[str]:
    """A line for each desktop that is not what it was."""
    was, now = ({each["name"]: _gist(each) for each in items} for items in (before, after))
    changed = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    return [f"{name}: {now.get(name, 'gone')}" for name in changed]


def _gist(each: Item) -> str:
    user = f", {each['user']}" if each["user"] else ""
    return f"{each['state']} on {each['image']}{user}"


def states_text(items: Iterable[Item]) -> str:
    """``3 ready, 1 creating``."""
    found = Counter(each["state"] for each in items)
    return ", ".join(f"{count} {state}" for state, count in sorted(found.items()))


def outlook_item(name: str, found: PoolForecast) -> Item:
    """The JSON of a pool's next turn."""
    turn = found.turn
    return {
        "name": name,
        "counts": to_plain(turn.counts),
        "waits": [{"user": user, "why": why} for user, why in found.waits.items()],
        "warnings": to_plain(turn.warnings),
        "refused": found.refused,
        "actions": [
            {"do": str(each.do), "desktop": each.desktop, "user": each.user, "why": each.why}
            for each in turn.actions
        ],
    }


def outlook_text(item: Item) -> str:
    """Counts, warnings, who waits and why, and what the next turn would do."""
    counts = item["counts"]
    startable = f"{counts['startable']} more could be started now"
    head = f"{counted(counts['wanted'], 'desktop')} wanted: " + ", ".join(
        f"{counts[each]} {each}" for each in ("used", "spare", "coming", "broken")
    )
    lines = [f"{head}; {startable}"]
    lines += [f"warning: {each['text']}" for each in item["warnings"]]
    if item["refused"]:
        lines.append(f"no room: {item['refused']}")
    lines += [f"waits: {each['user']}: {each['why']}" for each in item["waits"]]
    rows = [[f"  {each['do']}", each["desktop"], each["why"]] for each in item["actions"]]
    return "\n".join([*lines, "next reconcile cycle:", table(rows) if rows else "  nothing to do"])


def pool_change_item(changes: Sequence[PoolChange]) -> Item:
    """The JSON of what a file changes of pools."""
    return {
        "name": "pools",
        "changes": sum(each.any for each in changes),
        "pools": [to_plain(each) for each in changes],
    }


def pool_change_text(changes: Sequence[PoolChange]) -> str:
    """A line for each pool and each change of it."""
    lines: list[str] = []
    for each in changes:
        verb = "create" if each.new else "change" if each.changes else "unchanged"
        lines.append(f"{verb}  pool {each.pool}")
        lines += [f"  {change}" for change in each.changes]
        lines += [f"  warning: {warning}" for warning in each.warnings]
    return "\n".join(lines)
