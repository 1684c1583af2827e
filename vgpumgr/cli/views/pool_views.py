"""Pools as printed: desktops, sessions, the next cycle of a pool, and what a file would change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vgpumgr.cli.output import fields, table
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.figure_views import hour_text, pool_now_text
from vgpumgr.endpoints.host_looks import UNREACHABLE
from vgpumgr.endpoints.pool_items import (
    DesktopItem,
    PoolChanges,
    PoolItem,
    PoolTrigger,
    PoolTurn,
    ProfileDiskItem,
    WholePool,
)
from vgpumgr.model.formats import counted, span_words


def pool_text(item: WholePool) -> str:
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
            ("Expected", expected_text(item["expected_logins"])),
            ("Now", pool_now_text(item["now"])),
            ("Last hour", hour_text(item["hour"])),
            ("Names", item["names"]),
            ("Tenant", item["tenant"]),
            ("Users", ", ".join(item["users"])),
            ("Groups", ", ".join(item["groups"])),
            ("Waiting", ", ".join(each["user"] for each in item["asks"])),
            ("Profile disks", ", ".join(map(_profile_disk_text, item["profile_disks"]))),
            *(
                ("Moves", f"{each['name']} to {each['to']} when {each['user']} logs off")
                for each in item["moves"]
            ),
        ]
    )
    rows = [_desktop_row(each) for each in item["items"]]
    titles = ["DESKTOP", "STATE", "USER", "IMAGE", "HOST", "SINCE", "WHY"]
    return f"{head}\n\n{table([titles, *rows])}" if rows else head


def _profile_disk_text(each: ProfileDiskItem) -> str:
    where = f" ({each['desktop']})" if each["desktop"] else ""
    return f"{each['user']}{where}"


def _desktop_row(each: DesktopItem) -> list[str]:
    user = each["user"] or (f"({each['owner']})" if each["owner"] else "-")
    gone = " (disconnected)" if each["disconnected_at"] else ""
    state = f"{each['state']}: {each['doing']}" if each["doing"] else each["state"]
    if each["stale_why"] == UNREACHABLE:
        state = f"unknown ({state} {span_words(each['seen_s'] or 0.0)} ago)"
    where = each["host"] or "-"
    return [each["name"], state, user + gone, each["image"], where, age(each["since"]), each["why"]]


def counts_text(item: PoolItem) -> str:
    """``7: 4 used, 2 free, 1 coming``."""
    counts = {
        "used": item["used"],
        "free": item["free"],
        "coming": item["coming"],
        "broken": item["broken"],
    }
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    return f"{item['desktops']}{': ' if parts else ''}{', '.join(parts)}"


def image_text(item: Mapping[str, Any]) -> str:
    """The image, and one that comes or was stopped."""
    rollout = item["rollout"]
    if rollout is None or rollout["phase"] == "done":
        return str(item["image"])
    why = f": {rollout['why']}" if rollout["why"] else ""
    return f"{item['image']} ({rollout['image']}: {rollout['phase']}{why})"


def moved(before: Sequence[DesktopItem], after: Sequence[DesktopItem]) -> list[str]:
    """A line for each desktop that is not what it was."""
    was, now = ({each["name"]: _gist(each) for each in items} for items in (before, after))
    changed = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    return [f"{name}: {now.get(name, 'gone')}" for name in changed]


def _gist(each: DesktopItem) -> str:
    user = f", {each['user']}" if each["user"] else ""
    return f"{each['state']} on {each['image']}{user}"


def outlook_text(item: PoolTurn) -> str:
    """Counts, warnings, who waits and why, and what the next turn would do."""
    counts = item["counts"]
    startable = f"{counts['startable']} more could be started now"
    head = (
        f"{counted(counts['wanted'], 'desktop')} wanted: {counts['used']} used, "
        f"{counts['spare']} spare, {counts['coming']} coming, {counts['broken']} broken"
    )
    lines = [f"{head}; {startable}"]
    lines += [f"warning: {each['text']}" for each in item["warnings"]]
    if item["refused"]:
        lines.append(f"no room: {item['refused']}")
    if item["expected_logins"] is not None:
        lines.append(f"expected: {expected_text(item['expected_logins'])}")
    lines += [f"waits: {each['user']}: {each['why']}" for each in item["waits"]]
    lines += [_trigger_text(each) for each in item["triggers"]]
    rows = [[f"  {each['do']}", each["desktop"], each["why"]] for each in item["actions"]]
    return "\n".join([*lines, "next reconcile cycle:", table(rows) if rows else "  nothing to do"])


def expected_text(logins: int | None) -> str:
    """``12 logins soon, by the last weeks``; empty where the pool does not learn that."""
    return "" if logins is None else f"{counted(logins, 'login')} soon, by the last weeks"


def _trigger_text(each: PoolTrigger) -> str:
    mean = "not told" if each["mean"] is None else f"{each['mean']:.0%}"
    asked = f"{counted(each['wanted'], 'desktop')} asked for"
    return f"scale: {each['metric']} {mean}, threshold {each['threshold']:.0%}: {asked}"


def pool_change_text(changes: PoolChanges) -> str:
    """A line for each pool and each change of it."""
    lines: list[str] = []
    for each in changes["pools"]:
        verb = "create" if each["new"] else "change" if each["changes"] else "unchanged"
        lines.append(f"{verb}  pool {each['pool']}")
        lines += [f"  {change}" for change in each["changes"]]
        lines += [f"  warning: {warning}" for warning in each["warnings"]]
    return "\n".join(lines)
