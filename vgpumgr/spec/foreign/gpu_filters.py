"""The GPUs that an entry of a foreign file is for, as rules of a layout and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpumgr import catalog
from vgpumgr.catalog import Board
from vgpumgr.model.formats import PciAddress
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.spec.foreign.shared_format import ForeignEntryModel

_NVIDIA = "10de:"


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs of one model that an entry is for; no ``devices``: every one of that model.

    A model is the key of a board, or the PCI id of one outside the catalogue.
    """

    model: str
    devices: tuple[str, ...] = ()

    @property
    def board(self) -> Board | None:
        """The board of the group's model; None outside the catalogue."""
        return catalog.board(self.model)

    @property
    def vendor_device(self) -> str:
        """``10de:20b5``."""
        return self.board.vendor_device if self.board else self.model


@dataclass(slots=True)
class GpuTargets:
    """Finds the GPUs of entries, the last entry first: there the last match wins.

    ``gpus`` are those of the one host that a file is for; ``fleet`` those whose drivers tell of
    boards outside the catalogue.
    """

    gpus: Sequence[GpuFacts]
    fleet: Sequence[GpuFacts] = ()
    left_out: list[str] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    def of(self, entry: ForeignEntryModel) -> list[GpuGroup]:
        """The boards, or the single GPUs, that no later entry is for."""
        models = self._models(entry.ids)
        if entry.numbers is None:
            return [GpuGroup(each) for each in self._free(models)]
        return list(self._numbered(entry.numbers, models))

    def take(self, group: GpuGroup) -> None:
        """No earlier entry is for these any more."""
        self._taken |= set(group.devices) or {group.model}

    def unlisted(self, model: str) -> list[GpuFacts]:
        """The GPUs of a model outside the catalogue."""
        known = (*self.gpus, *self.fleet)
        return [each for each in known if each.model == model and _is_unlisted(each)]

    def _free(self, models: Sequence[str]) -> list[str]:
        here = {each.model for each in self.gpus}
        free = [each for each in models if each not in self._taken]
        return [each for each in free if each in here] if here else free

    def _models(self, ids: Sequence[str]) -> list[str]:
        """Models of the catalogue in its order, then models that only hosts report."""
        found = {each: [b for b in catalog.boards() if _is_meant(b, each)] for each in ids}
        others = {each.model for each in (*self.gpus, *self.fleet) if _is_unlisted(each)}
        for missing in sorted(each for each, boards in found.items() if not boards):
            if missing not in others:
                said = "neither the catalogue nor a probed host has this board"
                self.left_out.append(f"device-filter {filter_text(missing)}: {said}")
        for each, boards in found.items():
            self._note_wider(each, boards)
        meant = {board.key for boards in found.values() for board in boards} | {*ids}
        known = [*(each.key for each in catalog.boards()), *sorted(others)]
        return [each for each in known if not ids or each in meant]

    def _note_wider(self, wanted: str, boards: Sequence[Board]) -> None:
        """A layout knows boards, not their makers' subsystems."""
        for board in boards:
            if "/" in wanted and len(board.subsystems) > 1:
                others = len(board.subsystems) - 1
                self.left_out.append(
                    f"device-filter {filter_text(wanted)}: a layout means every {board.key}, "
                    f"{others} other subsystem{'s' if others > 1 else ''} of it included"
                )

    def _numbered(self, numbers: Sequence[int], models: Sequence[str]) -> Iterator[GpuGroup]:
        here = in_order(self.gpus)
        if not here:
            self.left_out.append(f"devices {list(numbers)}: numbers mean the GPUs of one host")
            return
        found: dict[str, list[str]] = {}
        for number in numbers:
            if number >= len(here):
                self.left_out.append(f"device {number}: the host has {len(here)} NVIDIA GPUs")
                continue
            gpu = here[number]
            if gpu.model in models and not self._taken & {gpu.device, gpu.model}:
                found.setdefault(gpu.model, []).append(gpu.device)
        for model, devices in found.items():
            yield GpuGroup(model, tuple(devices))


def in_order(gpus: Sequence[GpuFacts]) -> list[GpuFacts]:
    """NVIDIA GPUs in the order in which NVML and both tools number them: by PCI address."""
    found = [each for each in gpus if each.vendor_device.startswith(_NVIDIA)]
    return sorted(found, key=lambda gpu: PciAddress.parse(gpu.device))


def is_nvidias(group: GpuGroup) -> bool:
    """Of the catalogue's boards, or by the vendor in its PCI id."""
    return group.board is not None or group.model.startswith(_NVIDIA)


def _is_unlisted(gpu: GpuFacts) -> bool:
    return gpu.vendor_device.startswith(_NVIDIA) and catalog.board(gpu.model) is None


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


def rule_for(layout: GpuLayout, groups: Sequence[GpuGroup]) -> list[LayoutRule]:
    """One rule for all boards and one for all single GPUs, where there are any."""
    models = tuple(each.model for each in groups if not each.devices)
    devices = tuple(device for each in groups for device in each.devices)
    rules = []
    if devices:
        rules.append(LayoutRule(layout=layout, devices=devices))
    if models:
        rules.append(LayoutRule(layout=layout, models=models))
    return rules


@dataclass(slots=True)
class GpuFilter:
    """One layout's GPUs; ``gpus`` by host give its single devices their numbers."""

    spec: LayoutSpec
    gpus: Mapping[str, Sequence[GpuFacts]]
    left_out: list[str]

    def note(self, rule: LayoutRule, what: str) -> None:
        """Say what of a rule is not in the file."""
        number = self.spec.rules.index(rule)
        self.left_out.append(f"{self.spec.name}: gpus[{number}]: {what}")

    def note_lost(self, rule: LayoutRule, parts: Sequence[str]) -> None:
        """Say which of these parts, and which places, the format has no word for."""
        for part in parts:
            if getattr(rule.layout, part) is not None:
                self.note(rule, f"{part}: the format has no word for it")
        if any(goal.start is not None for goal in rule.layout.instances or ()):
            self.note(rule, "the tool chooses where an instance begins")

    def of(self, rule: LayoutRule) -> list[dict[str, Any]]:
        """The keys that choose the rule's GPUs; nothing where the format cannot name them."""
        if not rule.models and not rule.devices:
            return [{"devices": "all"}]
        return self.of_groups(rule, self.groups(rule))

    def of_groups(self, rule: LayoutRule, groups: Sequence[GpuGroup]) -> list[dict[str, Any]]:
        """The same for these boards of a rule only."""
        if not groups:
            return []
        if rule.devices:
            devices = {device for group in groups for device in group.devices}
            numbers = [n for n, gpu in enumerate(self._here()) if gpu.device in devices]
            return [{"devices": numbers}]
        ids = sorted({pci_id(group.vendor_device) for group in groups})
        self._note_others(rule, groups)
        return [{"device-filter": ids, "devices": "all"}]

    def groups(self, rule: LayoutRule) -> list[GpuGroup]:
        """The rule's GPUs by board; what the format cannot name is noted."""
        if not rule.devices:
            known = [each for each in map(GpuGroup, rule.models) if is_nvidias(each)]
            for key in sorted(set(rule.models) - {each.model for each in known}):
                self.note(rule, f"{key} is not NVIDIA's")
            return known
        found: dict[str, list[str]] = {}
        for gpu in self._here():
            if gpu.device in rule.devices:
                found.setdefault(gpu.model, []).append(gpu.device)
        numbered = [GpuGroup(model, tuple(devices)) for model, devices in found.items()]
        named = {device for group in numbered for device in group.devices}
        for device in (each for each in rule.devices if each not in named):
            self.note(rule, f"{device}: its number on the host is not known")
        return numbered

    def of_model(self, model: str) -> list[GpuFacts]:
        """The GPUs of a model, on whatever host."""
        return [gpu for gpus in self.gpus.values() for gpu in gpus if gpu.model == model]

    def _here(self) -> list[GpuFacts]:
        hosts = self.spec.hosts
        return in_order(self.gpus.get(hosts[0], ())) if len(hosts) == 1 else []

    def _note_others(self, rule: LayoutRule, groups: Sequence[GpuGroup]) -> None:
        """Note boards that are not meant, but have the PCI id of one that is."""
        meant = {group.model for group in groups}
        ids = {group.vendor_device for group in groups}
        for board in catalog.boards():
            if board.vendor_device in ids and board.key not in meant:
                self.note(rule, f"{pci_id(board.vendor_device)} is {board.key} too")
