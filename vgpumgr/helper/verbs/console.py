"""The ``console`` verb: a connection to the screen (VNC), or the serial console, of a domain of the
caller's fleet.
"""

from __future__ import annotations

import socket
from xml.etree import ElementTree

from vgpumgr.helper import arguments, errors
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts import domain_files
from vgpumgr.helper.system import System
from vgpumgr.helper.terminals import Terminal

TAKES = ("domain", "vm", "kind")
SCREEN, SERIAL = "screen", "serial"

# The folder in which libvirt makes a domain's sockets.
SOCKETS = "/var/lib/libvirt/qemu"

Connection = socket.socket | Terminal


def attach(call: Call) -> Connection:
    """The connection; refused unless the domain runs and carries this fleet's mark of this VM."""
    name, vm = arguments.file_name(call.args, "domain"), arguments.identifier(call.args, "vm")
    kind = call.args.get("kind", SCREEN)
    if kind not in (SCREEN, SERIAL):
        arguments.bad("kind", f"neither {SCREEN} nor {SERIAL}")
    if not call.system.root():
        why = "the helper runs without sudo"
        raise HelperError(errors.NOT_PERMITTED, "a console needs root", why)
    status, domain = _running(call.system, name)
    if domain_files.mark_of(domain) != (call.fleet, vm):
        why = "the running domain does not carry this fleet's mark of that VM"
        raise HelperError(errors.CLAIM_MISMATCH, f"{name} is not ours", why)
    if kind == SERIAL:
        return _serial(call.system, name, status, domain)
    return _screen(call.system, name, domain)


def _screen(system: System, name: str, domain: ElementTree.Element) -> Connection:
    path = _vnc_socket(domain)
    if not path.startswith(f"{SOCKETS}/"):
        why = f"it listens on {path}" if path else "it listens on no socket that libvirt made"
        raise HelperError(errors.REFUSED, f"{name} has no VNC console", why)
    try:
        return system.dial(path, SOCKETS)
    except OSError as error:
        raise errors.from_effect(error, f"the VNC console of {name} does not answer") from error


def _serial(
    system: System, name: str, status: ElementTree.Element, domain: ElementTree.Element
) -> Connection:
    """To the first serial port: QEMU's pseudoterminal, or its socket below libvirt's folder."""
    port = domain.find("devices/serial")
    kind = "" if port is None else port.get("type", "")
    source = None if port is None else port.find("source")
    path = "" if source is None else source.get("path", "")
    pid = status.get("pid", "")
    try:
        if kind == "pty" and pid.isdecimal():
            return system.terminal(path, int(pid))
        if kind == "unix" and path.startswith(f"{SOCKETS}/"):
            return system.dial(path, SOCKETS)
    except OSError as error:
        raise errors.from_effect(error, f"the serial console of {name} does not answer") from error
    why = f"its serial port is of type {kind}" if kind else "it has no serial port"
    raise HelperError(errors.REFUSED, f"{name} has no serial console", why)


def _running(system: System, name: str) -> tuple[ElementTree.Element, ElementTree.Element]:
    """libvirt's record, and the ``<domain>`` in it."""
    try:
        text = system.read(f"{domain_files.STATUS}/{name}.xml")
    except FileNotFoundError:
        raise HelperError(errors.REFUSED, f"{name} does not run", "libvirt has no record") from None
    try:
        return _domain(text)
    except (ValueError, ElementTree.ParseError) as error:
        message = f"libvirt's record of {name} makes no sense"
        raise HelperError(errors.UNKNOWN, message, str(error)) from error


def _domain(text: str) -> tuple[ElementTree.Element, ElementTree.Element]:
    status = domain_files.parsed(text)
    domain = status.find("domain")
    if domain is None:
        raise ValueError("there is no <domain> in it")
    return status, domain


def _vnc_socket(domain: ElementTree.Element) -> str:
    """Its path; empty where there is none, or a port."""
    for listen in domain.iterfind("devices/graphics[@type='vnc']/listen[@type='socket']"):
        return listen.get("socket") or ""
    return ""
