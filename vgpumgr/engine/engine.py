"""The engine: every use case that looks at the fleet or changes it, by name."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.front.desktops import Desktops
from vgpumgr.engine.front.layouts import Layouts
from vgpumgr.engine.front.membership import Membership
from vgpumgr.engine.front.upkeep import Upkeep
from vgpumgr.engine.front.vms import Vms


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(Vms, Layouts, Desktops, Membership, Upkeep):
    """A session with the use cases as its methods: what front ends and tests call."""
