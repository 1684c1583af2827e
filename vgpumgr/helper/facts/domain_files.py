"""What libvirt keeps of domains in files that only root can write: whose a domain is."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from vgpumgr.helper import errors
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

# Its definitions, and its records of running domains (qemu_domain.c: virDomainSaveStatus).
DEFINED, STATUS = "/etc/libvirt/qemu", "/run/libvirt/qemu"
_SUFFIX = ".xml"
_MAX_CHARS = 4 << 20
_MARK = "metadata/{https://vgpumgr.dev/v1}vm"


def parsed(text: str) -> ElementTree.Element:
    """The root element of such a file; ValueError or ParseError for nonsense."""
    if len(text) > _MAX_CHARS or "<!DOCTYPE" in text:
        raise ValueError("it is too long, or has a DOCTYPE")
    return ElementTree.fromstring(text)  # noqa: S314  root's file, no DOCTYPE


def mark_of(domain: ElementTree.Element) -> tuple[str, str]:
    """The fleet and the id of the VM in a domain's mark; empty where it has none."""
    mark = domain.find(_MARK)
    return ("", "") if mark is None else (mark.get("fleet", ""), mark.get("id", ""))


def refuse_others(system: System, uuid: str, fleet: str) -> None:
    """Refused (claim-mismatch) where a domain of that UUID, defined or running, does not carry the
    fleet's mark; unknown where its file cannot be understood.
    """
    for path, text in _files(system):
        if uuid not in text:
            continue
        try:
            root = parsed(text)
        except (ValueError, ElementTree.ParseError) as error:
            raise HelperError(errors.UNKNOWN, f"{path} makes no sense", str(error)) from error
        domain = root if root.tag == "domain" else root.find("domain")
        if domain is None or domain.findtext("uuid") != uuid:
            continue
        if mark_of(domain)[0] != fleet:
            why = "it does not carry this fleet's mark"
            raise HelperError(
                errors.CLAIM_MISMATCH, f"domain {domain.findtext('name')} is not ours", why
            )


def _files(system: System) -> Iterator[tuple[str, str]]:
    for folder in (DEFINED, STATUS):
        for name in system.list(folder) if system.exists(folder) else ():
            path = f"{folder}/{name}"
            try:
                text = system.read(path) if name.endswith(_SUFFIX) else ""
            except FileNotFoundError:
                continue  # it went meanwhile
            except OSError as error:
                raise errors.from_effect(error, f"{path} could not be read") from error
            yield path, text
