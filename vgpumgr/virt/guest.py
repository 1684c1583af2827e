"""What the agent in a guest tells (qemu-guest-agent, by libvirt's virDomainGetGuestInfo).

All of it is the guest's word: it is read with limits, and nothing is freed or given by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import libvirt

from vgpumgr.model.domain import GuestFacts
from vgpumgr.virt.errors import broken, is_absent

_USERS = libvirt.VIR_DOMAIN_GUEST_INFO_USERS
# libvirt 7.10 and later.
_INTERFACES = getattr(libvirt, "VIR_DOMAIN_GUEST_INFO_INTERFACES", 0)
_MOST = 16


def ask(domain: Any) -> GuestFacts | None:
    """Ask it; None where no agent answers. libvirt waits 5 s for one that has connected."""
    for types in (_USERS | _INTERFACES, _USERS):
        try:
            found = domain.guestInfo(types, 0)
        except libvirt.libvirtError as error:
            if is_absent(error) or broken(domain.connect()):
                raise
            if _is_mute(error):
                return None
        else:
            return GuestFacts(users=_count(found, "user.count"), addresses=_addresses(found))
    return None


def _is_mute(error: libvirt.libvirtError) -> bool:
    """It is off, or no agent answers; asked for less it would not answer either."""
    return error.get_error_code() in {
        libvirt.VIR_ERR_OPERATION_INVALID,
        libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
    }


def _addresses(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Those by which others may reach it."""
    return tuple(dict.fromkeys(_routed(found)))[:_MOST]


def _routed(found: Mapping[str, Any]) -> Iterator[str]:
    for interface in range(min(_count(found, "if.count") or 0, _MOST)):
        for number in range(min(_count(found, f"if.{interface}.addr.count") or 0, _MOST)):
            with suppress(ValueError):
                address = ip_address(found.get(f"if.{interface}.addr.{number}.addr", ""))
                if not (address.is_loopback or address.is_link_local or address.is_multicast):
                    yield str(address)


def _count(found: Mapping[str, Any], name: str) -> int | None:
    number = found.get(name)
    return number if isinstance(number, int) else None
