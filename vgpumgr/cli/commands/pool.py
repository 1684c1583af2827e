"""The commands on pools of desktops, and pools in the files of apply, plan, diff and delete."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.commands.console import pool_connect
from vgpumgr.cli.options import span
from vgpumgr.cli.output import Column, list_options, output_option, print_item, print_list, say
from vgpumgr.cli.running_command import ending_at_once, leaving_by_interrupt
from vgpumgr.cli.terminal import echo
from vgpumgr.cli.user_files import require_one_way
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.pool_views import (
    image_text,
    moved,
    outlook_item,
    outlook_text,
    pool_change_item,
    pool_change_text,
    pool_item,
    pool_text,
    session_items,
    whole_pool,
)
from vgpumgr.model.errors import DeadlineExceeded
from vgpumgr.model.pool import MAX_DESKTOPS

if TYPE_CHECKING:
    from vgpumgr.engine.pools.desktop_assignment import AssignedDesktop
    from vgpumgr.spec import Documents


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
    engine = context.app.engine
    given = engine.assign_desktop(name, user, groups)
    until = time.monotonic() + (wait or 0.0)
    release = f"vgpumgr pool release {name} {shlex.quote(user)}"
    with ending_at_once(next=f"{release}   (otherwise {user} keeps waiting)"):
        while not given.desktop and time.monotonic() < until:
            time.sleep(WAIT_BEAT_S)
            given = _now(context, given)
    if wait is not None and not given.desktop:
        raise DeadlineExceeded(
            f"{user} has no desktop of {name} yet",
            why=given.waits,
            next=f"vgpumgr pool explain {name}, or {release}",
        )
    _print(given)


def _now(context: Context, given: AssignedDesktop) -> AssignedDesktop:
    """Whether somebody gave it one meanwhile."""
    ledger = context.app.ledger
    pool = ledger.pool(given.pool)
    for row in ledger.desktops():
        session = row.desktop.session if row.desktop.ready and row.pool == pool.id else None
        if session is not None and (session.user, session.disconnected) == (given.user, None):
            return replace(given, desktop=row.name, host=row.desktop.host, waits="")
    return given


def _print(given: AssignedDesktop) -> None:
    item = {
        "name": given.desktop or given.user,
        "pool": given.pool,
        "user": given.user,
        "desktop": given.desktop or None,
        "host": given.host or None,
        "waits": given.waits or None,
    }
    text = (
        f"{given.user} has {given.desktop} on {given.host}"
        if given.desktop
        else f"{given.user} waits: {given.waits}\n  next: vgpumgr pool explain {given.pool}"
    )
    print_item("Assignment", item, text)


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
        context.app.ledger.pool(name)
        confirm(yes=yes)(f"give up what {user} has in {name}, with its disks?")
    ended = context.app.engine.release_desktop(name, user, for_good=for_good)
    names = ", ".join(each.name for each in ended)
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
        text = pool_text(whole_pool(context.app.ledger, name))
        if text != drawn:
            click.clear()
            echo(text)
            drawn = text
        time.sleep(WATCH_BEAT_S)


def _lines(context: Context, name: str, most: int | None) -> None:
    before: list[dict[str, Any]] = []
    told = 0
    while most is None or told < most:
        now = whole_pool(context.app.ledger, name)["items"]
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
    Column("IMAGE", lambda item: image_text(dict(item))),
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
    ledger = context.app.ledger
    desktops, asks = ledger.desktops(), ledger.pool_asks()
    items = [pool_item(each, desktops, asks) for each in ledger.pools()]
    print_list("Pool", items, COLUMNS)


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show a pool, its desktops with their users, and who waits."""
    item = whole_pool(context.app.ledger, name)
    print_item("Pool", item, pool_text(item))


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@click.option("-n", "--last", type=click.IntRange(1, 100_000), default=50, show_default=True)
@list_options
@pass_context
def history(context: Context, name: str, last: int) -> None:
    """List sessions, newest first."""
    ledger = context.app.ledger
    sessions = ledger.pool_sessions(ledger.pool(name).id, last)
    print_list("Session", session_items(sessions), SESSIONS)


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@output_option
@pass_context
def explain(context: Context, name: str) -> None:
    """Show who waits and why, what could start, and what the next reconcile cycle would do."""
    item = outlook_item(name, context.app.engine.pool_outlook(name))
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
    done = context.app.engine.scale_pool(name, least=least, spare=spare, most=most).spec.size
    say(f"{name}: min {done.min}, spare {done.spare}, max {done.max}")


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@click.option("--off", is_flag=True, help="End the drain and fill the pool again.")
@pass_context
def drain(context: Context, name: str, off: bool) -> None:
    """Drain a pool: its users log off in their own time, nobody else gets a desktop."""
    context.app.engine.drain_pool(name, on=not off)
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
    done = context.app.engine.push_image(name, image)
    rollout = done.rollout
    say(f"{name}: {rollout.image}: {rollout.phase}" if rollout else f"{name} has {image} already")


@pool.command()
@click.argument("name", shell_complete=completed("pools"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_context
def delete(context: Context, name: str, yes: bool) -> None:
    """Delete a pool that nobody uses, with its desktops; `serve` deletes them."""
    from vgpumgr.cli.terminal import confirm

    item = whole_pool(context.app.ledger, name)
    confirm(yes=yes)(f"delete pool {name} with {item['desktops']} desktops?")
    delete_pool(context, name)


def delete_pool(context: Context, name: str) -> None:
    """Delete it, and say what is left to do."""
    left = context.app.engine.delete_pool(name)
    say(
        f"pool {name} is deleted"
        if left.closed_at
        else f"pool {name} is deleted with its last desktop"
    )


def plan_pools(context: Context, documents: Documents, file: str) -> bool:
    """Show what applying would change; does it?"""
    require_one_way(documents, file)
    context.app.require_hosts()
    changes = [context.app.engine.pool_plan(each) for each in documents.pools]
    print_item("PoolPlan", pool_change_item(changes), pool_change_text(changes))
    return any(each.any for each in changes)


def apply_pools(context: Context, documents: Documents, file: str) -> None:
    """Write the pools down: all that can be are looked at before the first."""
    require_one_way(documents, file)
    context.app.require_hosts()
    engine = context.app.engine
    for each in documents.pools:
        engine.pool_plan(each)
    changes = [engine.put_pool(each) for each in documents.pools]
    print_item("PoolApply", pool_change_item(changes), pool_change_text(changes))
    if any(each.any for each in changes):
        say(
            "serve creates the desktops; follow with: vgpumgr pool watch "
            + shlex.quote(changes[0].pool)
        )


def delete_pools(
    context: Context, documents: Documents, file: str, ask: Callable[[str], None]
) -> None:
    """Delete those of the file's pools that there are."""
    pass

    require_one_way(documents, file)
    there = {each.name for each in context.app.ledger.pools()}
    names = [each.name for each in documents.pools if each.name in there]
    if not names:
        say("nothing to delete")
        return
    ask(f"delete {', '.join(names)} with their desktops?")
    for name in names:
        delete_pool(context, name)
