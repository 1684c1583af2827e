"""The commands `vm connect`, `vm console` and `pool connect`: consoles of VMs and desktops."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import fields, output_option, print_item, say
from vgpumgr.cli.running_command import ending_at_once, ending_gently, leaving_by_interrupt
from vgpumgr.cli.user_files import write_private
from vgpumgr.endpoints import consoles
from vgpumgr.endpoints.remote_desktops import (
    POOL_REMOTE_DESKTOP,
    VM_REMOTE_DESKTOP,
    PoolRemoteDesktop,
    RemoteDesktop,
    VmRemoteDesktop,
)
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.app.ticket_password import GivenTicket
    from vgpumgr.client.api_client import ApiClient
    from vgpumgr.client.console_stream import ConsoleStream
    from vgpumgr.model.ports import ConsoleProxy

OPEN_S = 60.0
"""How long a local address waits for its viewer, at a server."""
_BEAT_S, _LINE_BEAT_S = 0.2, 1.0

timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=45.0,
    show_default=True,
    help="Seconds to wait for an answer, or for a desktop.",
)


rdp_option = click.option(
    "--rdp",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a connect file to the guest's own remote desktop, whose address its agent tells.",
)
viewer_option = click.option(
    "--viewer-file",
    "viewer_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the ticket to a .vv file for remote-viewer, which deletes it.",
)


@click.command("connect")
@click.argument("name", shell_complete=completed("vms"))
@timeout_option
@rdp_option
@viewer_option
@output_option
@pass_context
def vm_connect(
    context: Context, name: str, timeout: float, rdp: Path | None, viewer_file: Path | None
) -> None:
    """Get a console ticket for a VM: an address and a password for one VNC connection.

    `vgpumgr serve` on this machine is the console proxy: it listens on 127.0.0.1 and forwards the
    connection over SSH to the VM. The ticket ends with its first connection, or when it expires.
    At a server the command itself listens here, and stays until the viewer leaves.
    """
    if rdp is not None:
        found = context.act(VM_REMOTE_DESKTOP, VmRemoteDesktop(name=name))
        _write_rdp(rdp, found.answer)
        return
    if context.server is not None:
        asked = consoles.OpenConsole(name=name)
        item = context.server.call(consoles.OPEN_CONSOLE, asked).answer
        _proxied(context.server, item, timeout, viewer_file)
        return
    from vgpumgr.app.actor import actor
    from vgpumgr.app.ticket_password import connect_vm

    with ending_gently(context.app.stop):
        given = connect_vm(context.app.engine, name, actor(), timeout)
    print_ticket(context, given, viewer_file)


@click.command("connect")
@click.argument("name", shell_complete=completed("pools"))
@click.argument("user", default="")
@timeout_option
@rdp_option
@viewer_option
@output_option
@pass_context
def pool_connect(
    context: Context,
    name: str,
    user: str,
    timeout: float,
    rdp: Path | None,
    viewer_file: Path | None,
) -> None:
    """Get a console ticket for a user's desktop, like `vm connect`; without USER for your own.

    Input in the viewer counts as activity; the session is disconnected when the viewer closes. At a
    server, and with --rdp, your own desktop is assigned to you, if need be after a wait.
    """
    if rdp is not None:
        _write_rdp(rdp, _remote_desktop(context, name, user, timeout))
        return
    if context.server is not None:
        item = _desktop(context.server, name, user, timeout)
        _proxied(context.server, item, timeout, viewer_file)
        return
    from vgpumgr.app.ticket_password import connect_desktop

    user = user or context.app.shown_access.at_shell().principal.user
    with ending_gently(context.app.stop):
        given = connect_desktop(context.app.engine, name, user, timeout)
    print_ticket(context, given, viewer_file)


@click.command("console")
@click.argument("name", shell_complete=completed("vms"))
@pass_context
def vm_console(context: Context, name: str) -> None:
    """Open a VM's serial console in this terminal; leave it with ctrl-].

    Without a terminal standard input and output are joined to it, until a second after the input's
    end in which the guest says nothing.
    """
    from vgpumgr.cli.raw_terminal import at_terminal, show_console

    if context.server is not None:
        asked = consoles.OpenConsole(name=name, kind="serial")
        stream = context.server.console(context.server.call(consoles.OPEN_CONSOLE, asked).answer)
        _greet(name, at_terminal())
        show_console(stream)
        _require_no_reason(name, stream)
        return
    from vgpumgr.app.console_tickets import serial_console

    with serial_console(context.app, name) as console:
        _greet(name, at_terminal())
        show_console(console)


def _greet(name: str, person: bool) -> None:
    if person:
        say(f"connected to {name}; leave with ctrl-]")


def _require_no_reason(name: str, stream: ConsoleStream) -> None:
    if stream.ended not in ("", consoles.CONSOLE_ENDED):
        raise HostUnreachable(f"the console of {name} was closed", why=stream.ended)


def _desktop(server: ApiClient, pool: str, user: str, timeout: float) -> consoles.DesktopConsole:
    """A ticket for the desktop, as soon as there is one."""
    asked = consoles.ConnectDesktop(name=pool, user=user)
    until = time.monotonic() + timeout
    with ending_at_once(next=f"you keep waiting; later: vgpumgr pool connect {pool}"):
        while (given := server.call(consoles.CONNECT_DESKTOP, asked).answer)["protocol"] is None:
            if time.monotonic() >= until:
                raise _no_desktop_yet(given["user"], pool, given["waits"] or "")
            time.sleep(_LINE_BEAT_S)
    return given


def _remote_desktop(context: Context, pool: str, user: str, timeout: float) -> RemoteDesktop:
    """The file for the desktop, as soon as there is one."""
    asked = PoolRemoteDesktop(name=pool, user=user)
    until = time.monotonic() + timeout
    while (found := context.act(POOL_REMOTE_DESKTOP, asked).answer)["file"] is None:
        if time.monotonic() >= until:
            raise _no_desktop_yet(found["user"], pool, found["waits"] or "")
        time.sleep(_LINE_BEAT_S)
    return found


def _no_desktop_yet(user: str, pool: str, why: str) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{user} has no desktop of {pool} yet",
        why=why,
        next=f"you keep waiting; later: vgpumgr pool connect {pool}",
    )


def _write_rdp(path: Path, found: RemoteDesktop) -> None:
    write_private(path, (found["file"] or "").encode())
    shown = [("Remote desktop", f"{found['address']}:{found['port']}"), ("File", str(path))]
    print_item("RemoteDesktop", found, fields(shown))


def _proxied(
    server: ApiClient, item: Mapping[str, Any], timeout: float, viewer_file: Path | None
) -> None:
    """Listen here for one viewer, and stay until it leaves."""
    from vgpumgr.app.actor import machine, uids_at_work
    from vgpumgr.app.console_proxy import LoopbackProxies
    from vgpumgr.app.ticket_password import PasswordHalf

    half, stream = PasswordHalf(), server.console(item)
    try:
        proxy = LoopbackProxies(timeout).open(stream, half.public, uids_at_work())
    except HostUnreachable:
        _require_no_reason(item["vm"], stream)
        raise
    shown = {
        **{"id": None, "vm": item["vm"], "user": item["user"], "machine": machine()},
        **{"address": proxy.address, "password": half.password(proxy.answer)},
    }
    _print(shown, time.time(), OPEN_S, (), viewer_file)
    say("this command listens there, and stays until the viewer leaves")
    with leaving_by_interrupt():
        _stay(proxy)
    proxy.close()
    _require_no_reason(item["vm"], stream)


def _stay(proxy: ConsoleProxy) -> None:
    """Until the viewer has left, or none has come."""
    until = time.monotonic() + OPEN_S
    while not (seen := proxy.look()).ended:
        if not seen.connected and time.monotonic() >= until:
            raise DeadlineExceeded(f"no viewer connected within {OPEN_S:g} s")
        time.sleep(_BEAT_S)
    say(seen.ended)


def print_ticket(context: Context, given: GivenTicket, viewer_file: Path | None = None) -> None:
    """The address and the password, once."""
    ticket = given.ticket
    item = {
        **{"id": ticket.id, "vm": ticket.vm, "user": ticket.user, "machine": ticket.machine},
        **{"address": ticket.address, "password": given.password},
    }
    _print(
        item, ticket.opened_at or time.time(), context.config.ticket_s, given.addresses, viewer_file
    )


def _print(
    item: dict[str, Any],
    opened_at: float,
    open_s: float,
    addresses: Sequence[str],
    viewer_file: Path | None,
) -> None:
    from vgpumgr.engine.consoles.connect_files import vv_file

    address = item["address"]
    if viewer_file is not None:
        title = f"{item['vm']} ({item['user']})"
        write_private(viewer_file, vv_file(address, item["password"], title=title).encode())
    host, _, port = address.rpartition(":")
    item |= {"until": opened_at + open_s, "guest_addresses": list(addresses)}
    shown = [
        ("Address", f"{address}   (vncviewer {host}::{port})"),
        ("Password", item["password"]),
        ("Valid for", f"one connection, opened within {open_s:g} s"),
    ]
    if viewer_file is not None:
        shown[1] = ("Viewer file", f"{viewer_file}   (remote-viewer {viewer_file})")
        item["password"] = ""
    if addresses:
        shown.append(("The guest itself", ", ".join(addresses)))
    print_item("Ticket", item, fields(shown))
