"""A GPU in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.gpu.facts import GpuFacts


class GpuState(StrEnum):
    """What the ledger thinks of a GPU."""

    HEALTHY = "healthy"
    QUARANTINED = "quarantined"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRecord:
    """A GPU in the ledger: our own key, the evidence it was recognised by, its last facts.

    ``units`` is the number of memory slots an allocation can take from it (1 where the GPU can
    only be given whole). ``state_why`` is why it is quarantined.
    """

    id: str
    host: str
    facts: GpuFacts
    units: int
    state: GpuState = GpuState.HEALTHY
    generation: int = 0
    state_why: str = ""

    def is_called(self, name: str) -> bool:
        """Whether ``name`` is its id, the beginning of it, or HOST/DEVICE."""
        return self.id.startswith(name) or name == f"{self.host}/{self.facts.device}"
