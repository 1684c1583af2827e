"""``vgpumgr pool``."""

from __future__ import annotations

import click

from vgpumgr.cli.commands.pool_connect import connect
from vgpumgr.cli.commands.pool_users import assign, release
from vgpumgr.cli.commands.pool_watch import watch
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import (
    Column,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.pool_items import (
    image_text,
    pool_item,
    pool_text,
    session_items,
    whole_pool,
)
from vgpumgr.cli.views.pool_outlook import outlook_item, outlook_text
from vgpumgr.model.pool import MAX_DESKTOPS

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
pool.add_command(connect)
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
    from vgpumgr.spec.pool_terms import is_image

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
    from vgpumgr.cli.questions import confirm

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
