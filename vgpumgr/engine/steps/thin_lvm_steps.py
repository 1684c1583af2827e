"""Steps on thin volumes of LVM's, which libvirt can neither make nor grow: the helper does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.engine.steps.volume_steps import CreateVolume, GrowVolume, refuse_foreign
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.operation import InState
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class CreateThinVolume(CreateVolume):
    """Make a thin volume in a volume group, or a thin snapshot of another one. LVM writes down the
    whole of it or nothing.
    """

    atomic: ClassVar[bool] = True

    group: str

    def act(self, host: Host, clock: Clock) -> None:
        """Make it; libvirt has to see it, too."""
        plan = self.plan
        refuse_foreign(host, plan.pool, plan.name)
        asked = {"group": self.group, "name": plan.name, "bytes": plan.capacity_bytes}
        source = {"source": plan.source} if plan.source else {}
        host.helper.call("thin_volume_create", {**asked, **source})
        if not isinstance(seen := self.look(host), InState):
            raise HostRefused(f"{self.summary}: {host.name} did not do it", why=str(seen))


@dataclass(frozen=True, slots=True)
class GrowThinVolume(GrowVolume):
    """Make a thin volume larger; libvirt lists its new size once it has read the group again."""

    group: str

    def act(self, host: Host, clock: Clock) -> None:
        """Grow it, and read back."""
        size = self.capacity_bytes
        asked = {"group": self.group, "name": self.name, "bytes": size}
        host.helper.call("thin_volume_grow", asked)
        there = {each.name: each.capacity_bytes for each in host.storage.volumes(self.pool)}
        if there.get(self.name, 0) < size:
            why = f"it has {there.get(self.name)} bytes, {size} were asked for"
            raise HostRefused(f"{self.summary}: it did not grow", why=why)
