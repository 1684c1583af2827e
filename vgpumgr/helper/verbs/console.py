"""The ``console`` verb: a connection to the VNC socket of a domain of the caller's fleet."""

from __future__ import annotations

import socket
from xml.etree import ElementTree

from vgpumgr.helper import arguments, errors
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

TAKES = ("domain", "vm")

# libvirt's record of a running domain, root's alone (qemu_domain.c: virDomainSaveStatus), and the
# folder in which it makes a domain's sockets.
STATUS = "/run/libvirt/qemu"
SOCKETS = "/var/lib/libvirt/qemu"
_MAX_CHARS = 4 << 20
_MARK = "metadata/{https://vgpumgr.dev/v1}vm"


def attach(call: Call) -> socket.socket:
    """The connection; refused unless the domain runs and carries this fleet's mark of this VM."""
    name, vm = arguments.file_name(call.args, "domain"), arguments.identifier(call.args, "vm")
    if not call.system.root():
        why = "the helper runs without sudo"
        raise HelperError(errors.NOT_PERMITTED, "a console needs root", why)
    domain = _running(call.system, name)
    mark = domain.find(_MARK)
    if mark is None or (mark.get("fleet"), mark.get("id")) != (call.fleet, vm):
        why = "the running domain does not carry this fleet's mark of that VM"
        raise HelperError(errors.CLAIM_MISMATCH, f"{name} is not ours", why)
    path = _vnc_socket(domain)
    if not path.startswith(f"{SOCKETS}/"):
        why = f"it listens on {path}" if path else "it listens on no socket that libvirt made"
        raise HelperError(errors.REFUSED, f"{name} has no VNC console", why)
    try:
        return call.system.dial(path, SOCKETS)
    except OSError as error:
        raise errors.from_effect(error, f"the VNC console of {name} does not answer") from error


def _running(system: System, name: str) -> ElementTree.Element:
    """The ``<domain>`` of libvirt's record."""
    try:
        text = system.read(f"{STATUS}/{name}.xml")
    except FileNotFoundError:
        raise HelperError(errors.REFUSED, f"{name} does not run", "libvirt has no record") from None
    try:
        return _domain(text)
    except (ValueError, ElementTree.ParseError) as error:
        message = f"libvirt's record of {name} makes no sense"
        raise HelperError(errors.UNKNOWN, message, str(error)) from error


def _domain(text: str) -> ElementTree.Element:
    if len(text) > _MAX_CHARS or "<!DOCTYPE" in text:
        raise ValueError("it is too long, or has a DOCTYPE")
    domain = ElementTree.fromstring(text).find("domain")  # noqa: S314  root's file, no DOCTYPE
    if domain is None:
        raise ValueError("there is no <domain> in it")
    return domain


def _vnc_socket(domain: ElementTree.Element) -> str:
    """Its path; empty where there is none, or a port."""
    for listen in domain.iterfind("devices/graphics[@type='vnc']/listen[@type='socket']"):
        return listen.get("socket") or ""
    return ""
