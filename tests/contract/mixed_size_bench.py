"""A bench for mixed-size mode: an empty GPU with its VFs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.contract.vgpus import Vgpu, VgpuBench


@dataclass(frozen=True, kw_only=True)
class MixedSizeBench(VgpuBench):
    """All ``total`` VFs are on, the mode is off.

    ``places`` are the placement ids of ``small`` and ``large`` in mixed-size mode. ``smallest`` is
    the smallest type and fits ``most_smallest`` times in that mode. ``same_size_step`` is the
    distance of two small vGPUs while the mode is off, None where the driver tells no places.
    """

    total: int
    places: Mapping[int, tuple[int, ...]]
    smallest: int
    most_smallest: int
    same_size_step: int | None

    def enabled(self) -> bool | None:
        return self.facts(self.gpu).mixed_size

    def set_mode(self, on: bool) -> None:
        assert self.call("mixed_size_set", gpu=self.gpu, enabled=on) == {"enabled": on}
        assert self.enabled() is on

    def set_vfs(self, on: bool) -> None:
        self.call("vfs_set", gpu=self.gpu, count=self.total if on else 0)

    def place(self, vgpu: Vgpu) -> int | None:
        """Where the driver put it; None where it tells no place."""
        text = self.machine.read(f"{vgpu.files}/placement_id").strip()
        return int(text) if text.isdigit() else None

    @contextmanager
    def mixed(self) -> Iterator[None]:
        """The mode on, and off afterwards."""
        self.set_mode(True)
        yield
        self.set_mode(False)
