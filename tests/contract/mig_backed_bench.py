"""A bench for MIG-backed vGPUs: a GPU for GPU instances, and types that live in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.contract.bench import claim
from tests.contract.mig_bench import MigBench
from tests.contract.vgpus import TypedVfs, Vgpu, vf_file


@dataclass(frozen=True, kw_only=True)
class MigBackedBench(MigBench):
    """``small_type`` and ``large_type`` live in small and large instances; one fills its instance.

    ``small_starts`` are the places of small instances, and a large one lies at ``large_start``
    beside the first of them. ``time_sliced`` is a type for the GPU without MIG.
    """

    small_type: int
    small_starts: tuple[int, ...]
    large_type: int
    large_start: int
    time_sliced: int

    @contextmanager
    def cut(self, *instances: tuple[str, int]) -> Iterator[TypedVfs]:
        """MIG on, VFs on, these instances (profile, start); all of it off afterwards."""
        with self.mig_mode():
            carriers = TypedVfs(self.machine, self.vfs(True))
            for name, start in instances:
                self.make(name, start)
            yield carriers
            for vf in tuple(carriers.used):
                self.machine.write(vf_file(vf, "current_vgpu_type"), "0")

    def told(self, vgpu: Vgpu, name: str) -> int:
        """A number that the driver tells of a vGPU."""
        return int(self.machine.read(f"{vgpu.files}/{name}"))

    def listed(self, vf: str) -> set[int]:
        """The ids of ``creatable_vgpu_types``."""
        lines = self.machine.read(vf_file(vf, "creatable_vgpu_types")).splitlines()[1:]
        return {int(line.split(":")[0]) for line in lines}

    def behind(self, start: int, *, make: bool) -> dict[str, object]:
        """The ``instance`` of a vGPU: a small one at that place."""
        found = self.profile(self.small)
        place = {"profile_id": found.profile_id, "start": start, "size": found.size}
        return {"gpu": self.pf, **place, "make": make}

    def create(self, vf: str, instance: dict[str, object], owner: str = "one") -> dict[str, object]:
        asked = {"vf": vf, "type": self.small_type, "instance": instance, "claim": claim(owner)}
        return self.call("vgpu_create", **asked)

    def release(self, vf: str, owner: str = "one") -> None:
        self.call("vgpu_release", vf=vf, claim=claim(owner))
