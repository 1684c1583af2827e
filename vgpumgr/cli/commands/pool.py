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
    """Pools of desktops: who gets one, what they are made from, how many there are.

    A pool is a document `kind: Pool`; `apply -f` writes it down and `serve` makes its desktops.
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
@click.argument("name")
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show a pool, its desktops with their users, and who waits."""
    item = whole_pool(context.app.ledger, name)
    print_item("Pool", item, pool_text(item))


@pool.command()
@click.argument("name")
@click.option("-n", "--last", type=click.IntRange(1, 100_000), default=50, show_default=True)
@list_options
@pass_context
def history(context: Context, name: str, last: int) -> None:
    """List who was on which desktop, the last one first."""
    ledger = context.app.ledger
    sessions = ledger.pool_sessions(ledger.pool(name).id, last)
    print_list("Session", session_items(sessions), SESSIONS)


@pool.command()
@click.argument("name")
@output_option
@pass_context
def explain(context: Context, name: str) -> None:
    """Say who waits and why, what could be started, and what the next turn would do."""
    item = outlook_item(name, context.app.engine.pool_outlook(name))
    print_item("PoolTurn", item, outlook_text(item))


@pool.command()
@click.argument("name")
@click.option("--min", "least", type=_COUNT, help="Desktops there are at least.")
@click.option("--spare", type=_COUNT, help="Of them ready for nobody yet.")
@click.option("--max", "most", type=_COUNT, help="Desktops there are at most.")
@pass_context
def scale(
    context: Context, name: str, least: int | None, spare: int | None, most: int | None
) -> None:
    """Change how many desktops there are; applying the pool's file sets what it says again.

    Desktops too many go as nobody has them; one in use never goes.
    """
    done = context.app.engine.scale_pool(name, least=least, spare=spare, most=most).spec.size
    say(f"{name}: min {done.min}, spare {done.spare}, max {done.max}")


@pool.command()
@click.argument("name")
@click.option("--off", is_flag=True, help="Fill it again.")
@pass_context
def drain(context: Context, name: str, off: bool) -> None:
    """Empty a pool as its users log off; nobody else gets a desktop."""
    context.app.engine.drain_pool(name, on=not off)
    say(f"{name} {'is open again' if off else 'empties as its users log off'}")


@pool.command("push-image")
@click.argument("name")
@click.argument("image")
@pass_context
def push_image(context: Context, name: str, image: str) -> None:
    """Let a new image come to a pool: one desktop first, then step by step.

    The image from before takes back one that is still coming. An image that was stopped is tried
    once more.
    """
    from vgpumgr.spec.pool_terms import is_image

    if not is_image(image):
        raise click.BadParameter(f"{image!r} is no image with its version: like cad@12")
    done = context.app.engine.push_image(name, image)
    rollout = done.rollout
    say(f"{name}: {rollout.image}: {rollout.phase}" if rollout else f"{name} has {image} already")


@pool.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_context
def delete(context: Context, name: str, yes: bool) -> None:
    """Delete a pool that nobody uses, with its desktops; `serve` takes them away."""
    from vgpumgr.cli.questions import confirm

    item = whole_pool(context.app.ledger, name)
    confirm(yes=yes)(f"delete pool {name} with {item['desktops']} desktops?")
    delete_pool(context, name)


def delete_pool(context: Context, name: str) -> None:
    """Delete it, and say what is left to do."""
    left = context.app.engine.delete_pool(name)
    say(f"pool {name} is gone" if left.closed_at else f"pool {name} goes with its last desktop")
