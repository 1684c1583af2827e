"""What the operator chose for a takeover: profiles of GPU parts, bridges, pool, tenant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vgpumgr import catalog
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.vm import GpuRequest
from vgpumgr.model.vm_devices import NicSpec

NONE = "none"
NETWORK = "network:"
_TYPE = re.compile(r"nvidia-([0-9]{1,6})")
_PCI = re.compile(r"(?:[0-9a-f]{4,8}:)?([0-9a-f]{2}:[0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedDevice:
    """A device of a Proxmox resource mapping, by its PCI ids."""

    vendor_device: str
    subsystem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverChoices:
    """``gpus`` say what a source's own name of a GPU part is (an mdev type or UUID, a PCI address,
    a resource mapping): a profile, a board, ``passthrough`` or ``none``. ``types`` are the mdev
    types that the fleet's hosts know, by profile. ``bridges`` say what stands for a bridge or
    network of the source. ``mapped`` are the devices of resource mappings. ``profiles`` are names
    that hosts told beside the catalogue's.
    """

    gpus: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    bridges: Mapping[str, str] = field(default_factory=dict)
    mapped: Mapping[str, tuple[MappedDevice, ...]] = field(default_factory=dict)
    profiles: frozenset[str] = frozenset()
    pool: str = "default"
    tenant: str = "default"

    def mdev(self, type_id: str, *names: str) -> GpuRequest | str | None:
        """The request for an mdev of that type: as chosen by type or one of ``names``, as the
        fleet's hosts know it, or as the catalogue does; ``none`` where it was chosen to be left
        out, None where nothing tells.
        """
        chosen = self.chosen((type_id, *names))
        if chosen is not None:
            return chosen
        profile = self.types.get(type_id) or _of_catalogue(type_id)
        return GpuRequest(profile=profile) if profile else None

    def device(self, names: Iterable[str]) -> GpuRequest | str | None:
        """The same of a whole device, by its address or the name of its mapping."""
        wanted = tuple(names)
        chosen = self.chosen((*wanted, *(short for each in wanted for short in _shorter(each))))
        if chosen is not None:
            return chosen
        boards = {_board(each) for name in wanted for each in self.mapped.get(name, ())}
        if not boards or None in boards:
            return None
        models = tuple(sorted(each for each in boards if each))
        if len(models) == 1:
            return GpuRequest(profile=PASSTHROUGH_PROFILE, model=models[0])
        return GpuRequest(profile=PASSTHROUGH_PROFILE, models=models)

    def chosen(self, names: Iterable[str]) -> GpuRequest | str | None:
        """What the operator said of the first of these names that he named."""
        value = next((self.gpus[each] for each in names if each in self.gpus), None)
        if value is None or value == NONE:
            return value
        if catalog.board(value) is not None:
            return GpuRequest(profile=PASSTHROUGH_PROFILE, model=value)
        return GpuRequest(profile=catalog.normalise(value))

    def knows(self, value: str) -> bool:
        """Is that a word that ``gpus`` may have: none, passthrough, a board or a profile?"""
        if value in {NONE, PASSTHROUGH_PROFILE} or catalog.board(value) is not None:
            return True
        profile = catalog.normalise(value)
        return profile in catalog.profiles() or profile in self.profiles

    def nic(self, bridge: str) -> NicSpec:
        """A NIC where one on that bridge of the source belongs."""
        there = self.bridges.get(bridge, bridge)
        if there.startswith(NETWORK):
            return NicSpec(network=there.removeprefix(NETWORK))
        return NicSpec(bridge=there)


def _shorter(address: str) -> tuple[str, ...]:
    """``0000:41:00.0`` is also called 41:00.0, 0000:41:00 and 41:00."""
    match = _PCI.fullmatch(address)
    if match is None:
        return ()
    device, function = match[1].lower(), match[2] or "0"
    return (f"0000:{device}.{function}", f"{device}.{function}", f"0000:{device}", device)


def _board(device: MappedDevice) -> str | None:
    found = catalog.board_by_pci(device.vendor_device, device.subsystem or None)
    return found.key if found else None


def _of_catalogue(type_id: str) -> str:
    """The profile of NVIDIA's number; empty where the catalogue does not know it, or is not sure
    of it.
    """
    match = _TYPE.fullmatch(type_id)
    if match is None:
        return ""
    number = int(match[1])
    names = {
        each.profile
        for board in catalog.boards()
        for each in board.types
        if each.id == number and each.verified
    }
    return names.pop() if len(names) == 1 else ""
