"""How an entry of a foreign file names the GPUs of a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpumgr import catalog
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import LayoutRule, LayoutSpec
from vgpumgr.spec.foreign.boards import Group, in_order, is_nvidias, pci_id


@dataclass(slots=True)
class Where:
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

    def of_groups(self, rule: LayoutRule, groups: Sequence[Group]) -> list[dict[str, Any]]:
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

    def groups(self, rule: LayoutRule) -> list[Group]:
        """The rule's GPUs by board; what the format cannot name is noted."""
        if not rule.devices:
            known = [each for each in map(Group, rule.models) if is_nvidias(each)]
            for key in sorted(set(rule.models) - {each.model for each in known}):
                self.note(rule, f"{key} is not NVIDIA's")
            return known
        found: dict[str, list[str]] = {}
        for gpu in self._here():
            if gpu.device in rule.devices:
                found.setdefault(gpu.model, []).append(gpu.device)
        numbered = [Group(model, tuple(devices)) for model, devices in found.items()]
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

    def _note_others(self, rule: LayoutRule, groups: Sequence[Group]) -> None:
        """Some boards share one PCI id."""
        meant = {group.model for group in groups}
        ids = {group.vendor_device for group in groups}
        for board in catalog.boards():
            if board.vendor_device in ids and board.key not in meant:
                self.note(rule, f"{pci_id(board.vendor_device)} is {board.key} too")
