"""Flavours: sizes of VMs by name, which files of VMs and pools ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

CLASS = "class"
"""The label that hosts of a flavour's class have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """A flavour. ``keys`` are those of a VM's file that it stands for, as they are written there:
    vcpus, memory, gpus, disks; ``host_class`` is what the label ``class`` of its hosts says, empty:
    any. ``set_at`` is in Unix seconds.
    """

    name: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    host_class: str = ""
    set_at: float = 0.0
    set_by: str = ""

    def filled(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A document with the keys of the flavour that it does not have itself."""
        found = {**self.keys, **document}
        if self.host_class:
            given = document.get("affinity")
            affinity = dict(given) if isinstance(given, Mapping) else {}
            labels = affinity.get("host_labels")
            own = labels if isinstance(labels, Mapping) else {}
            found["affinity"] = {**affinity, "host_labels": {CLASS: self.host_class, **own}}
        return found


class FlavourLedger(Protocol):
    """Flavours in the ledger. Every method is one transaction."""

    def flavours(self) -> tuple[Flavour, ...]:
        """Every flavour, by name."""

    def set_flavour(self, flavour: Flavour) -> None:
        """Write a flavour over the one of that name; Conflict where there are too many."""

    def delete_flavour(self, name: str) -> None:
        """Forget a flavour; NotFound, or InUse while a VM or a pool has it."""
