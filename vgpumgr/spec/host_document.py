"""``kind: Host``: an enrolled host."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.formats import parse_mib
from vgpumgr.model.host import SECRET_PATH, Fence, HostRecord, inline_secret
from vgpumgr.spec.fields import (
    Address,
    Bandwidth,
    Bridge,
    Labels,
    Line,
    Memory,
    Name,
    Reachable,
    Strict,
    refuse,
    refuse_unshown,
)

_BY_NAME = f"vgpumgr secret set NAME, then secret: NAME, and {SECRET_PATH} for the path of its file"


def _program(argv: list[str]) -> list[str]:
    if not argv[0].startswith("/"):
        refuse(f"{argv[0]} is not a path: begin with the program's whole path", 0)
    secret = inline_secret(argv)
    if secret:
        refuse_unshown(f"holds a password: {_BY_NAME}", argv.index(secret))
    return argv


Arguments = Annotated[list[Line], Field(min_length=1, max_length=64), AfterValidator(_program)]


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


class FenceModel(Strict):
    """How this machine switches the host off, and asks whether it is: two argument lists.

    They run without a shell. ``status`` ends with exit code 0, or 2 as fence agents do, and prints
    one line that ends with ``off`` and says nothing else of a state when the host is off.
    ``secret`` is the name of a secret of the fleet; ``{secret}`` in an argument is its path.
    """

    off: Arguments
    status: Arguments
    secret: Name | None = None

    @model_validator(mode="after")
    def _secret_where_it_is_used(self) -> FenceModel:
        asks = any(SECRET_PATH in each for each in (*self.off, *self.status))
        if asks and self.secret is None:
            refuse(f"{SECRET_PATH} is an argument, and no secret is named", "secret")
        if self.secret is not None and not asks:
            refuse(f"no argument of off or status has {SECRET_PATH}", "secret")
        return self

    def value(self) -> Fence:
        """The block in the model's words."""
        return Fence(off=tuple(self.off), status=tuple(self.status), secret=self.secret or "")


class HostModel(Strict):
    """A managed host, and the share of it that VMs may use."""

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["Host"]
    name: Name
    address: Address
    labels: Labels = Field(default={})
    cordoned: bool = False
    cpu_overcommit: float = Field(default=4.0, ge=1, le=64)
    reserved_memory: Memory = "1GiB"
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    layout: Literal["declared", "auto"] = "declared"
    migration: MigrationModel | None = None
    fence: FenceModel | None = None
    physical_networks: dict[Name, list[Bridge]] = Field(default={}, max_length=64)

    def value(self) -> HostRecord:
        """The host in the model's words."""
        return HostRecord(
            name=self.name,
            address=self.address,
            labels=dict(self.labels),
            physical_networks={
                name: tuple(dict.fromkeys(nics)) for name, nics in self.physical_networks.items()
            },
            cordoned=self.cordoned,
            cpu_overcommit=self.cpu_overcommit,
            reserved_memory_mib=parse_mib(self.reserved_memory),
            accelerator=self.accelerator,
            layout=self.layout,
            migration=None if self.migration is None else self.migration.value(),
            fence=None if self.fence is None else self.fence.value(),
        )
