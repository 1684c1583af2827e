"""Simulated NICs with SR-IOV: Intel 82576 on the bus, and what ``ip link`` knows of their VFs.

Words and numbers are those of iproute2 6 and Linux 6.12 (``igb``, ``net/core/rtnetlink.c``).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from vgpumgr.model.sim_fleet import UNLISTED_PLAIN, SimHost, SimNic
from vgpumgr.sim.boards.hardware import Gpu
from vgpumgr.sim.boards.pci_board import PciBoard
from vgpumgr.sim.boards.unlisted_boards import UNLISTED
from vgpumgr.sim.linux.file_tree import FileTree
from vgpumgr.sim.linux.pci_bus import IommuGroups
from vgpumgr.sim.linux.pci_function import Function

NET = "/sys/class/net"
BOARD: PciBoard = replace(UNLISTED[UNLISTED_PLAIN], pci_class="020000")
_FIRST_BUS = 0x10
_NO_MAC = "00:00:00:00:00:00"


@dataclass(slots=True)
class VfSettings:
    """What the PF has set for one VF; these are what it has when it comes on."""

    mac: str = _NO_MAC
    vlan: int = 0
    trust: bool = False
    spoof_check: bool = True


@dataclass(slots=True, eq=False)
class NicPort:
    """One NIC: its PF on the bus, and the settings of its VFs by number."""

    nic: SimNic
    function: Function
    vfs: dict[int, VfSettings] = field(default_factory=dict)

    def settings(self, number: int) -> VfSettings:
        """Those of a VF."""
        return self.vfs.setdefault(number, VfSettings())


def ports(host: SimHost, gpus: Sequence[Gpu], groups: IommuGroups) -> Iterator[NicPort]:
    """The NICs of a host, the same at every boot."""
    for index, nic in enumerate(host.nics):
        bus = _FIRST_BUS + 2 * index + 1
        near_gpu = gpus[nic.near_gpu] if nic.near_gpu >= 0 else None
        port = f"/sys/devices/pci0000:{bus - 1:02x}/0000:{bus - 1:02x}:01.0"
        path = f"{near_gpu.above if near_gpu else port}/0000:{bus:02x}:00.0"
        spread = index * host.numa_nodes // len(host.nics)
        yield NicPort(
            nic,
            Function(
                address=posixpath.basename(path),
                path=path,
                pci_class=BOARD.pci_class,
                vendor=BOARD.vendor,
                device=BOARD.device,
                subsystem=BOARD.subsystem,
                numa_node=near_gpu.numa_node if near_gpu else spread,
                reset_methods=BOARD.reset_methods,
                group=groups.add(path) if host.iommu else None,
                has_vf_bars=True,
            ),
        )


def show(tree: FileTree, port: NicPort) -> None:
    """Put the files of its interface."""
    at, nic = f"{NET}/{port.nic.name}", port.nic
    tree.link(f"{at}/device", port.function.path)
    tree.text(f"{at}/flags", "0x1003\n" if nic.up else "0x1002\n")
    if nic.up:
        tree.text(f"{at}/speed", "1000\n")


Answer = tuple[int, str]


def ip_link(ports_of: Sequence[NicPort], numbers: Sequence[int], args: Sequence[str]) -> Answer:
    """``ip ARGS…``: what is shown of an interface, and trust and spoof check of a VF. ``numbers``
    are how many VFs of each port are on.
    """
    known = dict(zip((each.nic.name for each in ports_of), numbers, strict=True))
    by_name = {each.nic.name: each for each in ports_of}
    match list(args):
        case ["-j", "link", "show", "dev", name] if name in by_name:
            return 0, json.dumps([_shown(by_name[name], known[name])])
        case ["link", "set", "dev", name, "vf", number, what, value] if name in by_name:
            return _set(by_name[name], int(number), what, value == "on", known[name])
        case [*_, "dev", name] | ["link", "set", "dev", name, *_]:
            return 1, f'Device "{name}" does not exist.\n'
    return 255, 'Object "link" is unknown, try "ip help".\n'


def _shown(port: NicPort, on: int) -> dict[str, object]:
    flags = ["BROADCAST", "MULTICAST", *(["UP", "LOWER_UP"] if port.nic.up else [])]
    return {
        "ifname": port.nic.name,
        "flags": flags,
        "vfinfo_list": [_vf(number, port.settings(number)) for number in range(on)],
    }


def _vf(number: int, has: VfSettings) -> dict[str, object]:
    vlan = {"vlan_list": [{"vlan": has.vlan}]} if has.vlan else {}
    return {
        "vf": number,
        "link_type": "ether",
        "address": has.mac,
        "broadcast": "ff:ff:ff:ff:ff:ff",
        **vlan,
        "spoofchk": has.spoof_check,
        "link_state": "auto",
        "trust": has.trust,
        "query_rss_en": False,
    }


def _set(port: NicPort, number: int, what: str, value: bool, on: int) -> Answer:
    if number >= on:
        return 2, "RTNETLINK answers: Invalid argument\n"
    if what == "trust" and not port.nic.trusts:
        return 2, "RTNETLINK answers: Operation not supported\n"
    if what == "trust":
        port.settings(number).trust = value
    else:
        port.settings(number).spoof_check = value
    return 0, ""


def give(port: NicPort, number: int, mac: str, vlan: int) -> VfSettings:
    """libvirt gives a VF to a guest: what it had, so that it can have it again."""
    has = port.settings(number)
    before = replace(has)
    has.mac, has.vlan = mac, vlan
    return before


def take_back(port: NicPort, number: int, before: VfSettings) -> None:
    """libvirt puts MAC address and VLAN back; it knows nothing of the rest."""
    has = port.settings(number)
    has.mac, has.vlan = before.mac, before.vlan
