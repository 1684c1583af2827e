"""The answer of the helper's ``gpu_look``, as far as layouts read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Seen:
    """``device`` and ``nvml`` as docs/helper-protocol.md has them; None: not read."""

    device: Mapping[str, Any] | None
    nvml: Mapping[str, Any] | None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Seen:
        """From the verb's result."""
        return cls(answer.get("device"), answer.get("nvml"))

    @property
    def mig(self) -> Mapping[str, Any] | None:
        """MIG mode, profiles and instances."""
        return self.nvml.get("mig") if self.nvml else None

    @property
    def instances(self) -> list[Mapping[str, Any]] | None:
        """GPU instances."""
        return self.mig.get("instances") if self.mig else None

    @property
    def vfs(self) -> int | None:
        """How many VFs are on."""
        sriov = self.device.get("sriov") if self.device else None
        return len(sriov["vfs"]) if sriov and sriov.get("vfs") is not None else None
