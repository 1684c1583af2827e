"""NICs with SR-IOV as sysfs and ``ip`` show them: interfaces of PFs, and VFs with their users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vgpumgr.helper import errors, pci, sysfs
from vgpumgr.helper.allowed_programs import IP
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

_NET = "/sys/class/net"
_UP = 0x1  # IFF_UP (Linux include/uapi/linux/if.h)
_SECONDS = 10.0


def nics(system: System) -> list[dict[str, Any]]:
    """Every PF with VFs to turn on, by the name of its interface."""
    return [_nic(system, name, address) for name, address in _physical_functions(system)]


def _physical_functions(system: System) -> Iterator[tuple[str, str]]:
    """One interface for each PF. In switchdev mode the representors of its VFs are interfaces of
    the PF's device, too (Linux Documentation/networking/representors.rst).
    """
    known: set[str] = set()
    for name in system.list(_NET) if system.exists(_NET) else ():
        address = sysfs.target(system, f"{_NET}/{name}/device")
        if address is None or address in known or _is_representor(system, name):
            continue
        if int(sysfs.optional_text(system, f"{pci.path(address)}/sriov_totalvfs") or "0"):
            known.add(address)
            yield name, address


def _is_representor(system: System, name: str) -> bool:
    """``pf0vf3`` is a VF's port, ``p0`` the PF's; a driver without names says EOPNOTSUPP."""
    try:
        return "vf" in sysfs.text(system, f"{_NET}/{name}/phys_port_name")
    except OSError:
        return False


def _nic(system: System, name: str, address: str) -> dict[str, Any]:
    folder = pci.path(address)
    node = sysfs.optional_text(system, f"{folder}/numa_node")
    return {
        "name": name,
        "address": address,
        "path": system.real(folder),
        "driver": pci.driver(system, address),
        "numa_node": None if node is None or int(node) < 0 else int(node),
        "up": is_up(system, name),
        "speed_mbit": _speed(system, name),
        "total": int(sysfs.text(system, f"{folder}/sriov_totalvfs")),
        "vfs": [
            {
                "number": number,
                "address": vf,
                "driver": pci.driver(system, vf),
                "busy": busy(system, vf),
            }
            for number, vf in pci.numbered_vfs(system, address)
        ],
    }


def is_up(system: System, name: str) -> bool:
    """Is the interface up, link or no link?"""
    return bool(int(sysfs.optional_text(system, f"{_NET}/{name}/flags") or "0", 16) & _UP)


def _speed(system: System, name: str) -> int | None:
    """In Mbit/s; the kernel says EINVAL for an interface that is down, -1 without a link."""
    try:
        told = int(sysfs.text(system, f"{_NET}/{name}/speed"))
    except (OSError, ValueError):
        return None
    return told if told > 0 else None


def busy(system: System, vf: str) -> str:
    """The host's own use of the VF: an interface of it that is up, or part of another one."""
    folder = f"{pci.path(vf)}/net"
    for name in system.list(folder) if system.exists(folder) else ():
        above = sysfs.target(system, f"{_NET}/{name}/master")
        if above is not None:
            return f"its interface {name} is part of {above}"
        if is_up(system, name):
            return f"its interface {name} is up"
    return ""


def interface_of(system: System, address: str) -> str:
    """The interface of a PF; HelperError where it has none, by which its VFs would be set."""
    for name, physical in _physical_functions(system):
        if physical == address:
            return name
    why = f"its driver is {pci.driver(system, address) or 'none'}"
    raise HelperError(errors.REFUSED, f"{address} has no network interface with VFs", why)


def attributes(system: System, interface: str, number: int) -> dict[str, Any]:
    """What the PF has set for a VF: MAC, VLAN (0: none), trust and spoof check (None: not told).

    sysfs has none of it: it is netlink's IFLA_VFINFO_LIST, which ``ip -j link`` prints.
    """
    status, output = run(system, "-j", "link", "show", "dev", interface)
    try:
        told = json.loads(output)[0].get("vfinfo_list", [])
        found = next(each for each in told if each["vf"] == number)
        vlans = found.get("vlan_list") or [{"vlan": found.get("vlan", 0)}]
        return {
            "mac": found["address"],
            "vlan": int(vlans[0]["vlan"]),
            "trust": found.get("trust"),
            "spoof_check": found.get("spoofchk"),
        }
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
        why = f"ip ended with {status}: {output.strip()[:200]}"
        message = f"what {interface} has set for VF {number} could not be read"
        raise HelperError(errors.UNKNOWN, message, why) from error


def run(system: System, *args: str) -> tuple[int, str]:
    """``ip ARGS…``: exit status and output."""
    try:
        return system.run((IP, *args), _SECONDS)
    except OSError as error:
        raise errors.from_effect(error, f"{IP} could not be run") from error
