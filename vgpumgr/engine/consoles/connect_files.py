"""Files by which viewers connect: .rdp to the guest's own remote desktop, .vv to a console. Pure.

The keys of .rdp files are those of Microsoft's list of supported RDP properties; of .vv files those
of remote-viewer(1). What comes from a guest or a user is written only where it can end no line.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from vgpumgr.model.errors import Conflict

RDP_PORT = 3389


def reachable(vm: str, addresses: Sequence[str], *, agent: bool) -> str:
    """The guest's address for others, IPv4 first; Conflict where it tells none."""
    found = sorted(map(ip_address, addresses), key=lambda each: each.version)
    if found:
        return str(found[0])
    raise Conflict(
        f"the guest of {vm} tells no address",
        why="its agent does not answer, or it has no network yet"
        if agent
        else "its file does not say agent: true",
        next=f"vgpumgr vm connect {vm} shows its screen by the console proxy",
    )


def rdp_file(address: str, port: int, *, user: str) -> str:
    """For mstsc, Windows App, FreeRDP and others: they ask for the password, and check the guest's
    certificate.
    """
    host = f"[{address}]" if ":" in address else address
    lines = {
        "full address:s": f"{_line(host)}:{port}",
        "username:s": _line(user),
        "prompt for credentials:i": "1",
        "authentication level:i": "2",
        "enablecredsspsupport:i": "1",
        "screen mode id:i": "2",
        "dynamic resolution:i": "1",
        "use multimon:i": "0",
        "redirectclipboard:i": "1",
        "autoreconnection enabled:i": "1",
    }
    return "".join(f"{key}:{value}\r\n" for key, value in lines.items())


def vv_file(address: str, password: str, *, title: str) -> str:
    """For remote-viewer, which deletes the file once it has read it: the ticket in it is for one
    connection.
    """
    host, _, port = address.rpartition(":")
    lines = {
        "type": "vnc",
        "host": host.strip("[]"),
        "port": port,
        "password": password,
        "title": _line(title),
        "delete-this-file": "1",
    }
    return "[virt-viewer]\n" + "".join(f"{key}={value}\n" for key, value in lines.items())


def _line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:255]
