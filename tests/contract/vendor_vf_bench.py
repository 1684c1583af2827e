"""A bench for VFs that carry vGPUs by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.contract.bench import Bench, claim
from tests.contract.vgpus import vf_file

LINE = re.compile(r"(\d+) *: (\S.*)")


@dataclass(frozen=True, kw_only=True)
class VendorVfBench(Bench):
    """``vfs`` are free VFs of the empty ``pf``, on their vendor's driver.

    ``type_id`` and ``other_type`` are types of different size, and one of ``full`` fills the GPU.
    """

    pf: str
    vfs: tuple[str, ...]
    type_id: int
    other_type: int
    full: int

    def create(self, vf: str, type_id: int = 0, owner: str = "one") -> dict[str, object]:
        type_id = type_id or self.type_id
        return self.call("vgpu_create", vf=vf, type=type_id, claim=claim(owner))

    def look(self, vf: str) -> dict[str, object]:
        return self.call("vgpu_look", vf=vf)

    def release(self, vf: str, owner: str = "one") -> dict[str, object]:
        return self.call("vgpu_release", vf=vf, claim=claim(owner))

    def by_hand(self, vf: str, text: str) -> None:
        self.machine.write(vf_file(vf, "current_vgpu_type"), text)

    def read(self, vf: str, name: str) -> str:
        return self.machine.read(vf_file(vf, name))

    @contextmanager
    def typed(self, vf: str, type_id: int = 0) -> Iterator[None]:
        """A vGPU on the VF, made by hand; taken away afterwards."""
        self.by_hand(vf, str(type_id or self.type_id))
        yield
        self.by_hand(vf, "0")

    def listed(self, vf: str) -> list[int]:
        """The ids of ``creatable_vgpu_types``, whose form is checked."""
        head, *lines = self.read(vf, "creatable_vgpu_types").splitlines()
        assert head == "ID    : vGPU Name"
        found = [LINE.fullmatch(line) for line in lines]
        assert None not in found
        return [int(each.group(1)) for each in found if each]
