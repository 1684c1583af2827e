"""One part of a GPU's partitioning changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpumgr import layout
from vgpumgr.engine.steps.base import Step
from vgpumgr.model.observed import Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class ChangePart(Step):
    """``change`` is a PartChange as ``layout.to_plain`` writes it, ``device`` the PF's address."""

    device: str
    change: Mapping[str, object]

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"{layout.summary(layout.from_plain(self.change))} on {self.device}"

    def look(self, host: Host) -> Observed:
        """Is this part as wanted?"""
        return layout.look(host.helper, self.device, layout.from_plain(self.change))

    def act(self, host: Host, clock: Clock) -> None:
        """Change it; the helper reads back before it answers."""
        layout.act(host.helper, self.device, layout.from_plain(self.change))
