"""``kind: Host``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vgpumgr.model.host import HostRecord
from vgpumgr.model.size import parse_mib
from vgpumgr.spec.fields import Address, Labels, Memory, Name, Strict


class HostModel(Strict):
    """A host to manage, and what of it VMs may use."""

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["Host"]
    name: Name
    address: Address
    labels: Labels = Field(default={})
    cordoned: bool = False
    cpu_overcommit: float = Field(default=4.0, ge=1, le=64)
    reserved_memory: Memory = "1GiB"
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"

    def value(self) -> HostRecord:
        """The host in the model's words."""
        return HostRecord(
            name=self.name,
            address=self.address,
            labels=dict(self.labels),
            cordoned=self.cordoned,
            cpu_overcommit=self.cpu_overcommit,
            reserved_memory_mib=parse_mib(self.reserved_memory),
            accelerator=self.accelerator,
        )
