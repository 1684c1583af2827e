"""The endpoints of connect files: .rdp files to the guests' own remote desktops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.consoles import UserName, desktop_for
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.shapes import Name

if TYPE_CHECKING:
    from vgpumgr.model.vm import VmRecord

Port = Annotated[int, ParameterLimits(ge=1, le=65535)]


class RemoteDesktop(TypedDict):
    """Where the remote desktop of ``vm``'s guest is, as its agent tells, and a connect ``file`` for
    it, by the name ``file_name``. Whether anything listens there, and the guest's password, are the
    guest's. While ``user`` has no desktop ``waits`` says why, and the rest is null.
    """

    name: str
    vm: str | None
    user: str
    waits: str | None
    address: str | None
    port: int
    file_name: str | None
    file: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VmRemoteDesktop:
    """A VM, and the port that its guest's remote desktop listens on."""

    name: Name
    port: Port = 3389


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRemoteDesktop:
    """The desktop of ``user`` in a pool; without one the caller's own."""

    name: Name
    user: UserName = ""
    port: Port = 3389


def vm_remote_desktop(context: CallContext, asked: VmRemoteDesktop) -> Result[RemoteDesktop]:
    """The file for a VM; Conflict where its guest tells no address."""
    vm = context.reads.vm(asked.name)
    return Result(answer=_found(context, vm, context.who.principal.user, asked.port))


def pool_remote_desktop(context: CallContext, asked: PoolRemoteDesktop) -> Result[RemoteDesktop]:
    """The file for a user's desktop. The caller without one is given one, or a place in line."""
    user, desktop, waits = desktop_for(context, asked.name, asked.user)
    if desktop:
        answer = _found(context, context.reads.vm(desktop), user, asked.port)
        return Result(answer=answer)
    nothing: RemoteDesktop = {
        "name": asked.name,
        "vm": None,
        "user": user,
        "waits": waits,
        "address": None,
        "port": asked.port,
        "file_name": None,
        "file": None,
    }
    return Result(answer=nothing)


def _found(context: CallContext, vm: VmRecord, user: str, port: int) -> RemoteDesktop:
    from vgpumgr.engine.consoles.connect_files import rdp_file, reachable
    from vgpumgr.engine.consoles.console_request import guest_addresses

    told = guest_addresses(context.app.engine, vm)
    address = reachable(vm.name, told, agent=vm.spec.agent)
    return {
        "name": vm.name,
        "vm": vm.name,
        "user": user,
        "waits": None,
        "address": address,
        "port": port,
        "file_name": f"{vm.name}.rdp",
        "file": rdp_file(address, port, user=user),
    }


VM_REMOTE_DESKTOP = Endpoint(
    name="vm.remote-desktop",
    method=HttpMethod.POST,
    path="/vms/{name}:remote-desktop",
    permission=Permission.VM_CONSOLE,
    summary="A connect file (.rdp) to the guest's own remote desktop.",
    asks=VmRemoteDesktop,
    answers=RemoteDesktop,
    kind="RemoteDesktop",
    work=vm_remote_desktop,
    runs=Runs.WORKER,
    scoped=True,
    personal=True,
)
POOL_REMOTE_DESKTOP = Endpoint(
    name="pool.remote-desktop",
    method=HttpMethod.POST,
    path="/pools/{name}:remote-desktop",
    permission=Permission.DESKTOP_CONNECT,
    summary="A connect file (.rdp) to the own desktop of a pool, or a place in line for one.",
    asks=PoolRemoteDesktop,
    answers=RemoteDesktop,
    kind="RemoteDesktop",
    work=pool_remote_desktop,
    runs=Runs.WORKER,
    scoped=True,
    personal=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (VM_REMOTE_DESKTOP, POOL_REMOTE_DESKTOP)
