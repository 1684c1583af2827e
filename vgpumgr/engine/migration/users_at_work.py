"""The refusal that names users at work: a stop or a move would cut them off."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from vgpumgr.engine.desktops.user_sessions import UserAtWork, at_work, named
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.desktop import DesktopState
from vgpumgr.model.errors import UsersAtWork
from vgpumgr.model.formats import counted
from vgpumgr.model.operation import Reservation
from vgpumgr.model.vm import VmRecord


def users_on(context: EngineContext, names: Collection[str]) -> tuple[UserAtWork, ...]:
    """Users at work on VMs of these names, by the last look."""
    found = at_work(context.ledger, context.view()).values() if names else ()
    return tuple(each for each in found if each.vm in names)


def refuse_users(context: EngineContext, names: Collection[str], *, next: str) -> None:
    """UsersAtWork where a stop of these VMs would cut a user off."""
    if users := users_on(context, names):
        raise users_cut_off(users, next=next)


def not_ready_meanwhile(context: EngineContext, start: Reservation, vm: VmRecord) -> Reservation:
    """The reservation with the rows of its free desktops: they are assigned to no user while they
    are stopped, and a desktop that was assigned meanwhile makes the reservation stale.
    """
    rows = tuple(
        replace(row, desktop=replace(row.desktop, state=DesktopState.CREATING))
        for row in context.ledger.desktops([vm.name])
        if row.vm_id == vm.id and row.desktop.ready and row.desktop.session is None
    )
    return replace(start, desktops=rows)


def users_cut_off(users: Collection[UserAtWork], *, next: str) -> UsersAtWork:
    """The error that names them."""
    return UsersAtWork(
        f"{counted(len(users), 'user')} would be cut off: {named(users)}",
        why="each has a session there, and what is open in it would be lost",
        next=next,
    )
