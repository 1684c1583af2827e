"""The commands on pools of desktops, and pools in the files of apply, plan, diff and delete."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.commands.console import pool_connect
from vgpumgr.cli.options import span
from vgpumgr.cli.output import Column, list_options, output_option, print_item, print_list, say
from vgpumgr.cli.running_command import ending_at_once, finish, leaving_by_interrupt
from vgpumgr.cli.terminal import echo
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.pool_views import (
    image_text,
    moved,
    outlook_text,
    pool_change_text,
    pool_text,
)
from vgpumgr.endpoints import pools
from vgpumgr.endpoints.documents import DocumentText, PartOfFile
from vgpumgr.endpoints.pool_documents import APPLY_POOLS, FIND_POOLS, PLAN_POOLS
from vgpumgr.endpoints.pool_items import DesktopItem, WholePool
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.errors import DeadlineExceeded
from vgpumgr.model.pool import MAX_DESKTOPS

# How often it is looked whether somebody who waits has one, in seconds.
WAIT_BEAT_S = 0.5
_LONGEST = 255


def a_name(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
    """A user's or group's name: one line."""
    for each in (value,) if isinstance(value, str) else value:
        if not (each.isprintable() and each.strip() and len(each) <= _LONGEST):
            raise click.BadParameter(
                f"{each!r} is not a name: one line of at most {_LONGEST} letters"
            )
    return value


@click.command()
@click.argument("name", shell_complete=completed("pools"))
@click.argument("user", callback=a_name)
@click.option(
    "--group",
    "groups",
    multiple=True,
    callback=a_name,
    help="A group of the user; may be repeated.",
)
@click.option(
    "--wait", callback=span, metavar="TIME", help="Wait up to this long for a desktop: 30s, 5m."
)
@output_option
@pass_context
def assign(
    context: Context, name: str, user: str, groups: tuple[str, ...], wait: float | None
) -> None:
    """Assign a desktop of a pool to a user, or queue the user for one.

    Waiting users get the next ready desktop: `serve` creates and assigns it. With --wait, exit 9
    when none came in time; the user keeps waiting.
    """
    asked = pools.AssignDesktop(name=name, user=user, groups=groups)
    given = context.act(pools.ASSIGN_DESKTOP, asked).answer
    until = time.monotonic() + (wait or 0.0)
    release = f"vgpumgr pool release {name} {shlex.quote(user)}"
    with ending_at_once(next=f"{release}   (otherwise {user} keeps waiting)"):
        while not given["desktop"] and time.monotonic() < until:
            time.sleep(WAIT_BEAT_S)
            given = _now(context, given)
    if wait is not None and not given["desktop"]:
        raise DeadlineExceeded(
            f"{user} has no desktop of {name} yet",
            why=given["waits"] or "",
            next=f"vgpumgr pool explain {name}, or {release}",
        )
    _print(given)


def _now(context: Context, given: pools.AssignmentItem) -> pools.AssignmentItem:
    """Whether the user was given one meanwhile."""
    pool = context.read(pools.SHOW_POOL, pools.OnePool(name=given["pool"])).answer
    for each in pool["items"]:
        on_it = each["user"] == given["user"] and each["disconnected_at"] is None
        if each["state"] == "ready" and on_it:
            name, host = each["name"], each["host"]
            return {**given, "name": name, "desktop": name, "host": host, "waits": None}
    return given


def _print(given: pools.AssignmentItem) -> None:
    user = given["user"]
    text = (
        f"{user} has {given['desktop']} on {given['host']}"
        if given["desktop"]
        else f"{user} waits: {given['waits']}\n  next: vgpumgr pool explain {given['pool']}"
    )
    print_item("Assignment", given, text)


@click.command()
@click.argument("name", shell_complete=completed("pools"))
@click.argument("user", callback=a_name)
@click.option(
    "--for-good",
    is_flag=True,
    help="Also give up a desktop that the user owns in a dedicated pool.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before giving up an owner's desktop.")
@pass_context
def release(context: Context, name: str, user: str, for_good: bool, yes: bool) -> None:
    """End a user's session, or its waiting. A floating desktop is recreated for the next user.

    With --for-good an owner's desktop is deleted, with everything on its disks.
    """
    from vgpumgr.cli.terminal import confirm

    if for_good:
        context.read(pools.SHOW_POOL, pools.OnePool(name=name))
        confirm(yes=yes)(f"give up what {user} has in {name}, with its disks?")
    asked = pools.ReleaseDesktop(name=name, user=user, for_good=for_good)
    names = ", ".join(context.act(pools.RELEASE_DESKTOP, asked).answer["desktops"])
    say(f"{user} has released {names}" if names else f"{user} no longer waits")


WATCH_BEAT_S = 1.0


@click.command()
@click.argument("name", shell_complete=completed("pools"))
@click.option("--changes", type=click.IntRange(1), help="Exit after this many changes.")
@pass_context
def watch(context: Context, name: str, changes: int | None) -> None:
    """Follow a pool until Ctrl-C; without a terminal, print a line per change."""
    with leaving_by_interrupt():
        if sys.stdout.isatty():
            _redraw(context, name)
        else:
            _lines(context, name, changes)


def _redraw(context: Context, name: str) -> None:
    drawn = ""
    while True:
        text = pool_text(_whole(context, name))
        if text != drawn:
            click.clear()
            echo(text)
            drawn = text
        time.sleep(WATCH_BEAT_S)


def _whole(context: Context, name: str) -> WholePool:
    return context.read(pools.SHOW_POOL, pools.OnePool(name=name)).answer


def _lines(context: Context, name: str, most: int | None) -> None:
    before: list[DesktopItem] = []
    told = 0
    while most is None or told < most:
        now = _whole(context, name)["items"]
        for line in moved(before, now):
            echo(line)
            told += 1
        sys.stdout.flush()
        before = now
        if most is None or told < most:
            time.sleep(WATCH_BEAT_S)


_COUNT = click.IntRange(0, MAX_DESKTOPS)
COLUMNS = (
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("IMAGE", image_text),
    Column("PROFILE", "profile"),
    Column("DESKTOPS", "desktops"),
    Column("USED", "used"),
    Column("FREE", "free"),
    Column("COMING", "coming"),
    Column("BROKEN", "broken"),
    Column("WAITING", "waiting"),
    Column("SIZE", lambda item: f"{item['min']}/{item['spare']}/{item['max']}"),
    Column("TENANT", "tenant", wide=True),
    Column("NAMES", "names", wide=True),
)
SESSIONS = (
    Column("DESKTOP", "desktop"),
    Column("USER", "user"),
    Column("BEGAN", lambda item: f"{age(item['since'])} ago"),
    Column("ENDED", lambda item: item["closed_at"] and f"{age(item['closed_at'])} ago"),
    Column("BOOKING", "booking", wide=True),
    Column("WHY", "why"),
)


@click.group()
def pool() -> None:
    """Pools of desktops: entitled users, image, size.

    A pool is a document `kind: Pool`; `apply -f` records it and `serve` creates its desktops.
    """


pool.add_command(assign)
pool.add_command(pool_connect)
pool.add_command(release)
pool.add_command(watch)


@pool.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List pools with their desktops counted; SIZE is min/spare/max."""
    print_list("Pool", context.read(pools.LIST_POOLS, Nothing()).answer["items"], COLUMNS)


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show a pool, its desktops with their users, and who waits."""
    item = _whole(context, name)
    print_item("Pool", item, pool_text(item))


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@click.option("-n", "--last", type=click.IntRange(1, 100_000), default=50, show_default=True)
@list_options
@pass_context
def history(context: Context, name: str, last: int) -> None:
    """List sessions, newest first."""
    found = context.read(pools.LIST_SESSIONS, pools.PoolHistory(name=name, last=last))
    print_list("Session", found.answer["items"], SESSIONS)


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@output_option
@pass_context
def explain(context: Context, name: str) -> None:
    """Show who waits and why, what could start, and what the next reconcile cycle would do."""
    item = context.read(pools.EXPLAIN_POOL, pools.OnePool(name=name)).answer
    print_item("PoolTurn", item, outlook_text(item))


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@click.option("--min", "least", type=_COUNT, help="Minimum number of desktops.")
@click.option("--spare", type=_COUNT, help="Number of desktops ready and unassigned.")
@click.option("--max", "most", type=_COUNT, help="Maximum number of desktops.")
@pass_context
def scale(
    context: Context, name: str, least: int | None, spare: int | None, most: int | None
) -> None:
    """Change the number of desktops; applying the pool's file sets its sizes again.

    Surplus desktops are deleted when unused; a desktop in use never is.
    """
    asked = pools.ScalePool(name=name, min=least, spare=spare, max=most)
    done = context.act(pools.SCALE_POOL, asked).answer
    say(f"{name}: min {done['min']}, spare {done['spare']}, max {done['max']}")


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@click.option("--off", is_flag=True, help="End the drain and fill the pool again.")
@pass_context
def drain(context: Context, name: str, off: bool) -> None:
    """Drain a pool: its users log off in their own time, nobody else gets a desktop."""
    context.act(pools.DRAIN_POOL, pools.DrainPool(name=name, off=off))
    say(f"{name} {'is open again' if off else 'drains as its users log off'}")


@pool.command("push-image")
@click.argument("name", shell_complete=completed("pools"))
@click.argument("image", shell_complete=completed("images"))
@pass_context
def push_image(context: Context, name: str, image: str) -> None:
    """Roll a new image out to a pool: one canary desktop first, then step by step.

    Pushing the previous image rolls a running rollout back. A stopped image is tried again.
    """
    from vgpumgr.spec.pool_document import is_image

    if not is_image(image):
        raise click.BadParameter(f"{image!r} is not an image with its version: like cad@12")
    asked = pools.PushImage(name=name, image=image)
    done = context.act(pools.PUSH_IMAGE, asked).answer
    phase = done["phase"]
    say(f"{name}: {done['image']}: {phase}" if phase else f"{name} has {image} already")


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_context
def delete(context: Context, name: str, yes: bool) -> None:
    """Delete a pool that nobody uses, with its desktops; `serve` deletes them."""
    from vgpumgr.cli.terminal import confirm

    item = _whole(context, name)
    confirm(yes=yes)(f"delete pool {name} with {item['desktops']} desktops?")
    delete_pool(context, name)


def delete_pool(context: Context, name: str) -> None:
    """Delete it, and say what is left to do."""
    left = context.act(pools.DELETE_POOL, pools.OnePool(name=name)).answer
    say(
        f"pool {name} is deleted"
        if left["state"] == "gone"
        else f"pool {name} is deleted with its last desktop"
    )


def plan_pools(context: Context, asked: DocumentText) -> bool:
    """Show what applying would change; does it?"""
    changes = context.read(PLAN_POOLS, PartOfFile(text=asked.text, source=asked.source)).answer
    print_item("PoolPlan", changes, pool_change_text(changes))
    return bool(changes["changes"])


def apply_pools(context: Context, asked: DocumentText) -> None:
    """Write the pools down."""
    done = context.act(APPLY_POOLS, PartOfFile(text=asked.text, source=asked.source))
    print_item("PoolApply", done.answer, pool_change_text(done.answer))
    finish(done)


def part_of(asked: DocumentText) -> PartOfFile:
    """The same of a file in which there may be other kinds."""
    return PartOfFile(text=asked.text, source=asked.source, mixed=True)


def delete_pools(
    context: Context, asked: DocumentText, ask: Callable[[str], None], *, last: bool
) -> None:
    """Delete those of the file's pools that there are; ``last``: nothing else of it follows."""
    found = context.read(FIND_POOLS, part_of(asked)).answer
    if found["stays"] and last:
        say(f"left as they are: {found['stays']}")
    names = found["pools"]
    if not (names or last):
        return
    if not names:
        say("nothing to delete")
        return
    ask(f"delete {', '.join(names)} with their desktops?")
    for name in names:
        delete_pool(context, name)
