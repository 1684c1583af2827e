"""The refusal that names users at work: a stop or a move would cut them off."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

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


def refuse_cut_off(context: EngineContext, vms: Collection[VmRecord], *, next: str) -> None:
    """UsersAtWork where a stop of these VMs would cut users off: those of desktops, and as many as
    the agent of a guest says are logged in.
    """
    desktops = users_on(context, [vm.name for vm in vms])
    by_pool = {each.vm for each in desktops}
    told = logged_in(context, [vm for vm in vms if vm.spec.agent and vm.name not in by_pool])
    words = [named([each]) for each in desktops]
    words += [f"{counted(users, 'user')} on {name}" for name, users in told.items()]
    if words:
        more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
        raise UsersAtWork(
            f"users would be cut off: {', '.join(words[:_NAMED])}{more}",
            why="what is open in their sessions would be lost",
            next=next,
        )


_NAMED = 10


def logged_in(context: EngineContext, vms: Collection[VmRecord]) -> dict[str, int]:
    """How many users are logged in on each of these VMs, by name, as their guests' agents tell;
    VMs without any are left out. A host or guest that does not tell says nothing.
    """
    by_host: dict[str, list[str]] = {}
    for vm in vms:
        by_host.setdefault(vm.host, []).append(vm.name)
    looks = {name: partial(_asked, context, name, names) for name, names in by_host.items()}
    answers = context.lanes.run(looks).values()
    found = [each for each in answers if not isinstance(each, Exception)]
    return {name: users for answer in found for name, users in answer.items() if users}


def _asked(context: EngineContext, host: str, names: Collection[str]) -> dict[str, int]:
    domains = context.host(host).domains
    told = {name: domains.guest(name) for name in names if domains.look(name) is not None}
    return {name: guest.users or 0 for name, guest in told.items() if guest is not None}


def users_cut_off(users: Collection[UserAtWork], *, next: str) -> UsersAtWork:
    """The error that names them."""
    return UsersAtWork(
        f"{counted(len(users), 'user')} would be cut off: {named(users)}",
        why="each has a session there, and what is open in it would be lost",
        next=next,
    )
