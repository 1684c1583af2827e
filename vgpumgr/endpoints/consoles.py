"""The endpoints of consoles: a ticket for one connection to a VM, or to a user's own desktop.

The connection itself is the websocket ``GET /v1/consoles``, to which the ticket is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.grants import may_use_desktop, refusal
from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.shapes import Name, Time
from vgpumgr.model.console_ticket import ConsoleKind
from vgpumgr.model.errors import Conflict

if TYPE_CHECKING:
    from vgpumgr.model.vm import VmRecord

PATH = "/v1/consoles"
TICKET = "ticket."
"""A ticket is shown as a subprotocol that begins so; no address ever has it."""
PROTOCOL = "binary"
"""The subprotocol that is spoken."""

CONSOLE_ENDED = "the console has ended"
"""Why a connection was closed where nothing else was the matter."""

KindName = Annotated[str, ParameterLimits(pattern=f"^({'|'.join(ConsoleKind)})$")]
UserName = Annotated[str, ParameterLimits(max_length=255)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenConsole:
    """A VM's ``screen`` (VNC) or ``serial`` console."""

    name: Name
    kind: KindName = ConsoleKind.SCREEN.value


class ConsoleItem(TypedDict):
    """Where a console is connected to: the websocket at ``path``, with the subprotocols ``binary``
    and ``protocol``, once, until ``expires_at``. ``protocol`` holds the ticket, told this once.
    """

    name: str
    vm: str
    user: str
    kind: str
    path: str
    protocol: str
    expires_at: Time


class DesktopConsole(TypedDict):
    """The desktop of ``user``, and where its screen is connected to; while there is none ``waits``
    says why, the user is in line, and the rest is null.
    """

    name: str
    pool: str
    user: str
    desktop: str | None
    waits: str | None
    vm: str | None
    kind: str
    path: str | None
    protocol: str | None
    expires_at: Time | None


def open_console(context: CallContext, asked: OpenConsole) -> Result[ConsoleItem]:
    """A ticket for a VM that runs."""
    vm = context.reads.vm(asked.name)
    user = context.who.principal.user
    return Result(answer=_ticket(context, vm, ConsoleKind(asked.kind), user))


def _ticket(context: CallContext, vm: VmRecord, kind: ConsoleKind, user: str) -> ConsoleItem:
    ticket, secret = context.app.console_tickets.give(context.who, vm, kind, user)
    return {
        "name": vm.name,
        "vm": vm.name,
        "user": user,
        "kind": kind.value,
        "path": PATH,
        "protocol": TICKET + secret,
        "expires_at": ticket.expires_at or 0.0,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectDesktop:
    """The desktop of ``user`` in a pool; without one the caller's own."""

    name: Name
    user: UserName = ""


def connect_desktop(context: CallContext, asked: ConnectDesktop) -> Result[DesktopConsole]:
    """A ticket for a user's desktop. The caller without one is given one, or a place in line."""
    user, desktop, waits = desktop_for(context, asked.name, asked.user)
    found: Any = dict.fromkeys(DesktopConsole.__annotations__)
    found |= {"name": user, "pool": asked.name, "user": user, "waits": waits or None}
    found["kind"] = ConsoleKind.SCREEN.value
    if desktop:
        vm = context.reads.vm(desktop)
        found |= {**_ticket(context, vm, ConsoleKind.SCREEN, user), "desktop": desktop}
    return Result(answer=found)


def desktop_for(context: CallContext, name: str, user: str) -> tuple[str, str, str]:
    """The user (the caller where none is named), the user's desktop in the pool, and why there is
    none yet; AccessRefused where the caller may not use it.
    """
    who = context.who
    pool = context.reads.pool(name)
    user, tenant = user or who.principal.user, pool.spec.desktop.tenant
    if not may_use_desktop(who.grants, who.principal, user, tenant):
        own = user == who.principal.user
        raise refusal(
            who.grants, Permission.DESKTOP_CONNECT if own else Permission.POOL_ASSIGN, tenant
        )
    desktop, waits = _desktop(context, pool.name, user)
    return user, desktop, waits


def _desktop(context: CallContext, pool: str, user: str) -> tuple[str, str]:
    """The desktop that the user is on, or why the user waits."""
    from vgpumgr.engine.pools.desktop_assignment import desktop_of

    who, engine = context.who, context.app.engine
    try:
        return desktop_of(engine, pool, user), ""
    except Conflict:
        if user != who.principal.user:
            raise
    given = engine.assign_desktop(pool, user, sorted(who.principal.groups))
    return given.desktop, given.waits


OPEN_CONSOLE = Endpoint(
    name="vm.open-console",
    method=HttpMethod.POST,
    path="/vms/{name}:open-console",
    permission=Permission.VM_CONSOLE,
    summary="A ticket for one connection to a VM's screen or serial console.",
    asks=OpenConsole,
    answers=ConsoleItem,
    kind="Console",
    work=open_console,
    scoped=True,
    secret=True,
)
CONNECT_DESKTOP = Endpoint(
    name="pool.connect",
    method=HttpMethod.POST,
    path="/pools/{name}:connect",
    permission=Permission.DESKTOP_CONNECT,
    summary="A ticket for one connection to the own desktop of a pool, or a place in line for one.",
    asks=ConnectDesktop,
    answers=DesktopConsole,
    kind="DesktopConsole",
    work=connect_desktop,
    runs=Runs.WORKER,
    scoped=True,
    secret=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (OPEN_CONSOLE, CONNECT_DESKTOP)
