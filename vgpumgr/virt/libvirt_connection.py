"""A connection to libvirt: opened, asked for versions and networks, and closed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import libvirt

from vgpumgr.model.errors import HostUnreachable, NotPermitted
from vgpumgr.virt.libvirt_domains import LibvirtDomains
from vgpumgr.virt.libvirt_errors import calling, translated
from vgpumgr.virt.libvirt_storage import LibvirtStorage


def _silent(_context: object, _error: object) -> None:
    """libvirt prints every error to stderr unless told otherwise; ours are raised."""


libvirt.registerErrorHandler(_silent, None)


def open_uri(uri: str) -> Libvirt:
    """Connect, blocking. Raises NotPermitted, or HostUnreachable with libvirt's words."""
    try:
        return Libvirt(libvirt.open(uri))
    except libvirt.libvirtError as error:
        refusal = translated(error, "connect to libvirt")
        if isinstance(refusal, NotPermitted):
            raise refusal from error
        raise HostUnreachable("cannot connect to libvirt", why=str(error)) from error


class Libvirt:
    """An open connection; not usable after :meth:`close`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @cached_property
    def domains(self) -> LibvirtDomains:
        """The host's domains."""
        return LibvirtDomains(self._connection)

    @cached_property
    def storage(self) -> LibvirtStorage:
        """The host's storage pools and volumes."""
        return LibvirtStorage(self._connection)

    def networks(self) -> tuple[str, ...]:
        """The names of libvirt's networks, active or not."""
        with calling(self._connection, "list networks"):
            return tuple(sorted(each.name() for each in self._connection.listAllNetworks(0)))

    def filters(self) -> tuple[str, ...]:
        """The names of libvirt's network filters; none where it has no driver for them."""
        try:
            found = self._connection.listAllNWFilters(0)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
                return ()
            raise translated(error, "list network filters") from error
        return tuple(sorted(each.name() for each in found))

    def versions(self) -> tuple[str, str]:
        """The versions of libvirt and of its hypervisor: ``("9.0.0", "7.2.22")``."""
        with calling(self._connection, "read versions"):
            return (
                _dotted(self._connection.getLibVersion()),
                _dotted(self._connection.getVersion()),
            )

    def alive(self) -> bool:
        """Is the connection still open, as far as was noticed?"""
        try:
            return bool(self._connection.isAlive() == 1)
        except libvirt.libvirtError:
            return False

    def close(self) -> None:
        """Close it; a second time does nothing."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.close()
        except libvirt.libvirtError:
            return  # it was broken: nothing is left to close


def _dotted(number: int) -> str:
    """libvirt's 1,000,000 × major + 1,000 × minor + release."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
