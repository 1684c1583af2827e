"""Users at work on VMs that something is done with, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from vgpumgr.engine.pooling import AtWork

F = TypeVar("F", bound=Callable[..., None])


def with_users_option(command: F) -> F:
    """Allow what cuts users off."""
    return click.option(
        "--with-users",
        is_flag=True,
        help="Even where users are at work: their sessions are cut off.",
    )(command)


def user_items(users: Sequence[AtWork]) -> list[dict[str, Any]]:
    """The JSON of who is at work, and where."""
    return [
        {"user": each.user, "vm": each.vm, "pool": each.pool, "disconnected": each.away}
        for each in users
    ]


def cut_off_text(users: Sequence[AtWork]) -> str:
    """``cut off: ada on cad-01``; empty where nobody is."""
    from vgpumgr.engine.pooling import named

    return f"cut off: {named(users, len(users))}" if users else ""
