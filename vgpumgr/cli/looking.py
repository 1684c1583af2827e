"""``--refresh``: probe before printing; hosts that could not be read make it exit 7."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from vgpumgr.cli.context import Context
from vgpumgr.model.errors import PartlyDone

refresh_option = click.option("--refresh", is_flag=True, help="Probe the hosts first.")


@contextmanager
def refreshed(context: Context, wanted: bool, hosts: Iterable[str] = ()) -> Iterator[None]:
    """Probe these hosts (all without names) if wanted; what was read is printed nevertheless."""
    unread: tuple[str, ...] = ()
    if wanted and context.app.ledger.hosts():
        failed = context.app.engine.refresh(hosts).failed
        unread = tuple(f"{name}: {error.message}" for name, error in sorted(failed.items()))
    yield
    require_all_read(unread)


def require_all_read(unread: tuple[str, ...]) -> None:
    """PartlyDone when hosts could not be read: what was said holds for the others."""
    if unread:
        raise PartlyDone(
            f"{len(unread)} {'host' if len(unread) == 1 else 'hosts'} could not be read",
            why="; ".join(unread[:5]),
            next="vgpumgr doctor",
        )
