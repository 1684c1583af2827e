"""Which GPUs an entry of a foreign file is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vgpumgr import catalog
from vgpumgr.catalog import Board
from vgpumgr.model.address import PciAddress
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout, LayoutRule
from vgpumgr.spec.foreign.files import EntryModel

_NVIDIA = "10de:"


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs of one board that an entry is for; no ``devices``: every one of that board."""

    board: Board
    devices: tuple[str, ...] = ()


@dataclass(slots=True)
class Targets:
    """Finds the GPUs of entries, the last entry first: there the last match wins."""

    gpus: Sequence[GpuFacts]
    left_out: list[str] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    def of(self, entry: EntryModel) -> list[Group]:
        """The boards, or the single GPUs, that no later entry is for."""
        boards = self._boards(entry.ids)
        if entry.numbers is None:
            return [Group(each) for each in self._free(boards)]
        return list(self._numbered(entry.numbers, boards))

    def take(self, group: Group) -> None:
        """No earlier entry is for these any more."""
        self._taken |= set(group.devices) or {group.board.key}

    def _free(self, boards: Sequence[Board]) -> list[Board]:
        here = {each.model for each in self.gpus}
        free = [each for each in boards if each.key not in self._taken]
        return [each for each in free if each.key in here] if here else free

    def _boards(self, ids: Sequence[str]) -> list[Board]:
        found = {each: [b for b in catalog.boards() if _is_meant(b, each)] for each in ids}
        for missing in sorted(each for each, boards in found.items() if not boards):
            self.left_out.append(f"device-filter {filter_text(missing)}: no board of the catalogue")
        for each, boards in found.items():
            self._note_wider(each, boards)
        meant = {board.key for boards in found.values() for board in boards}
        return [each for each in catalog.boards() if not ids or each.key in meant]

    def _note_wider(self, wanted: str, boards: Sequence[Board]) -> None:
        """A layout knows boards, not their makers' subsystems."""
        for board in boards:
            if "/" in wanted and len(board.subsystems) > 1:
                others = len(board.subsystems) - 1
                self.left_out.append(
                    f"device-filter {filter_text(wanted)}: a layout means every {board.key}, "
                    f"{others} other subsystem{'s' if others > 1 else ''} of it included"
                )

    def _numbered(self, numbers: Sequence[int], boards: Sequence[Board]) -> Iterator[Group]:
        here = in_order(self.gpus)
        known = {each.key: each for each in boards}
        if not here:
            self.left_out.append(f"devices {list(numbers)}: numbers mean the GPUs of one host")
            return
        found: dict[str, list[str]] = {}
        for number in numbers:
            if number >= len(here):
                self.left_out.append(f"device {number}: the host has {len(here)} NVIDIA GPUs")
                continue
            gpu = here[number]
            if gpu.model in known and not self._taken & {gpu.device, gpu.model}:
                found.setdefault(gpu.model, []).append(gpu.device)
        for model, devices in found.items():
            yield Group(known[model], tuple(devices))


def in_order(gpus: Sequence[GpuFacts]) -> list[GpuFacts]:
    """NVIDIA GPUs in the order in which NVML and both tools number them: by PCI address."""
    found = [each for each in gpus if each.vendor_device.startswith(_NVIDIA)]
    return sorted(found, key=lambda gpu: PciAddress.parse(gpu.device))


def _is_meant(board: Board, wanted: str) -> bool:
    """``wanted`` is ``10de:20b5``, or ``10de:20b5/10de:1533`` with a subsystem."""
    vendor_device, _, subsystem = wanted.partition("/")
    return board.vendor_device == vendor_device and subsystem in {"", *board.subsystems}


def filter_text(wanted: str) -> str:
    """The filter as the tools write it: ``0x20B510DE:0x153310DE``."""
    return ":".join(map(pci_id, wanted.split("/")))


def pci_id(vendor_device: str) -> str:
    """``10de:20b5`` → ``0x20B510DE``."""
    vendor, _, device = vendor_device.partition(":")
    return f"0x{device}{vendor}".upper().replace("0X", "0x")


def rule_for(layout: GpuLayout, groups: Sequence[Group]) -> list[LayoutRule]:
    """One rule for all boards and one for all single GPUs, where there are any."""
    models = tuple(each.board.key for each in groups if not each.devices)
    devices = tuple(device for each in groups for device in each.devices)
    rules = []
    if devices:
        rules.append(LayoutRule(layout=layout, devices=devices))
    if models:
        rules.append(LayoutRule(layout=layout, models=models))
    return rules
