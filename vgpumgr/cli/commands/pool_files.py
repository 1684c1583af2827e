"""What the whole-file verbs do with ``kind: Pool``."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from vgpumgr.cli.context import Context
from vgpumgr.cli.file_kinds import require_one_way
from vgpumgr.cli.output import print_item, say
from vgpumgr.cli.views.pool_outlook import wish_item, wish_text

if TYPE_CHECKING:
    from vgpumgr.spec import Documents


def plan_pools(context: Context, documents: Documents, file: str) -> bool:
    """Show what applying would change; does it?"""
    require_one_way(documents, file)
    context.app.require_hosts()
    wishes = [context.app.engine.pool_plan(each) for each in documents.pools]
    print_item("PoolPlan", wish_item(wishes), wish_text(wishes))
    return any(each.any for each in wishes)


def apply_pools(context: Context, documents: Documents, file: str) -> None:
    """Write the pools down: all that can be are looked at before the first."""
    require_one_way(documents, file)
    context.app.require_hosts()
    engine = context.app.engine
    for each in documents.pools:
        engine.pool_plan(each)
    wishes = [engine.put_pool(each) for each in documents.pools]
    print_item("PoolApply", wish_item(wishes), wish_text(wishes))
    if any(each.any for each in wishes):
        say(
            "serve creates the desktops; follow with: vgpumgr pool watch "
            + shlex.quote(wishes[0].pool)
        )


def delete_pools(
    context: Context, documents: Documents, file: str, ask: Callable[[str], None]
) -> None:
    """Delete those of the file's pools that there are."""
    from vgpumgr.cli.commands.pool import delete_pool

    require_one_way(documents, file)
    there = {each.name for each in context.app.ledger.pools()}
    names = [each.name for each in documents.pools if each.name in there]
    if not names:
        say("nothing to delete")
        return
    ask(f"delete {', '.join(names)} with their desktops?")
    for name in names:
        delete_pool(context, name)
