"""``vgpumgr pool assign`` and ``release``."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.interrupts import ending_at_once
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.spans import span
from vgpumgr.model.errors import DeadlineExceeded

if TYPE_CHECKING:
    from vgpumgr.engine.use_cases.pool import Given

# How often it is looked whether somebody who waits has one, in seconds.
BEAT_S = 0.5
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
            time.sleep(BEAT_S)
            given = _now(context, given)
    if wait is not None and not given.desktop:
        raise DeadlineExceeded(
            f"{user} has no desktop of {name} yet",
            why=given.waits,
            next=f"vgpumgr pool explain {name}, or {release}",
        )
    _print(given)


def _now(context: Context, given: Given) -> Given:
    """Whether somebody gave it one meanwhile."""
    ledger = context.app.ledger
    pool = ledger.pool(given.pool)
    for row in ledger.desktops():
        session = row.desktop.session if row.desktop.ready and row.pool == pool.id else None
        if session is not None and (session.user, session.disconnected) == (given.user, None):
            return replace(given, desktop=row.name, host=row.desktop.host, waits="")
    return given


def _print(given: Given) -> None:
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
    from vgpumgr.cli.questions import confirm

    if for_good:
        context.app.ledger.pool(name)
        confirm(yes=yes)(f"give up what {user} has in {name}, with its disks?")
    ended = context.app.engine.release_desktop(name, user, for_good=for_good)
    names = ", ".join(each.name for each in ended)
    say(f"{user} has released {names}" if names else f"{user} no longer waits")
