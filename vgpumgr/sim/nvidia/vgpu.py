"""A vGPU on its carrier."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from vgpumgr.catalog import VgpuType


@dataclass(slots=True, eq=False)
class Vgpu:
    """A vGPU: ``carrier`` is the VF's address or the mdev's UUID.

    ``instance_id`` is its GPU instance, None for a time-sliced one; ``placement_id`` None where
    the driver has no ids for it. ``uuid`` is NVML's, not the mdev's; ``handle`` is NVML's number
    of it; ``vm`` is empty until a domain with it runs. ``params`` are ``vgpu_params`` as they are
    read at the next start of the VM.
    """

    carrier: str
    type: VgpuType
    instance_id: int | None
    placement_id: int | None
    handle: int
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    params: dict[str, str] = field(default_factory=dict)
    vm: str = ""

    @property
    def type_id(self) -> int:
        """The driver's number of the type."""
        assert self.type.id is not None
        return self.type.id
