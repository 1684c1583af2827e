"""Network filters that libvirt of a simulated host was given, next to the ones it came with."""

from __future__ import annotations

from contextlib import suppress

from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.errors import HostRefused
from vgpumgr.sim.machine.kernel import Kernel

_FOLDER = "/etc/libvirt/nwfilter"


def define(kernel: Kernel, name: str, xml: str) -> None:
    """Know it from now on, through power cuts; one of that name stays."""
    known = names(kernel)
    if name in known:
        return
    doing = f"cannot define network filter {name}"
    for each in untrusted(xml, "filter").iterfind("filterref"):
        if each.get("filter") not in known:
            why = f"internal error: referenced filter '{each.get('filter')}' is missing"
            raise HostRefused(doing, why=why)
    kernel.store(f"{_FOLDER}/{name}.xml", xml)


def drop(kernel: Kernel, name: str) -> None:
    """Know it no more."""
    with suppress(FileNotFoundError):
        kernel.remove(f"{_FOLDER}/{name}.xml")


def names(kernel: Kernel) -> tuple[str, ...]:
    """All of them."""
    given = kernel.tree.names(_FOLDER) if kernel.tree.exists(_FOLDER) else []
    return (*kernel.host.filters, *(name.removesuffix(".xml") for name in given))
