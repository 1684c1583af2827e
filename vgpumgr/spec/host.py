"""``kind: Host``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vgpumgr.model.host import HostRecord
from vgpumgr.model.migration import MigrationAddress
from vgpumgr.model.size import parse_mib
from vgpumgr.spec.fields import Address, Bandwidth, Labels, Memory, Name, Reachable, Strict


class MigrationModel(Strict):
    """Where other hosts send a running VM.

    ``address`` is a name or IP address at which they reach its QEMU, ``tls_name`` the name in its
    certificate where that is another, ``bandwidth`` the most that goes over in a second.
    """

    address: Reachable
    tls: bool = True
    tls_name: Reachable | None = None
    bandwidth: Bandwidth | None = None

    def value(self) -> MigrationAddress:
        """The block in the model's words."""
        return MigrationAddress(
            address=self.address,
            tls=self.tls,
            tls_name=self.tls_name or "",
            bandwidth_mib_s=None if self.bandwidth is None else parse_mib(self.bandwidth),
        )


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
    migration: MigrationModel | None = None

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
            migration=None if self.migration is None else self.migration.value(),
        )
