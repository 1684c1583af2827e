"""The step of a VM that waits for its wave of a rolling change: what it is to be then."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.steps.step import Step
from vgpumgr.model.errors import Conflict
from vgpumgr.model.operation import Differs, Observed
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.rolling import Rolling
from vgpumgr.model.vm import VmSpec


@dataclass(frozen=True, slots=True)
class AwaitWave(Step):
    """A VM changes from ``was`` to ``spec`` in this ``wave``, by tasks that are reserved when it
    begins. Neither has the text of its cloud-init seed. ``with_users``: even where users are at
    work.
    """

    wave: int
    rolling: Rolling
    was: VmSpec
    spec: VmSpec
    with_users: bool = False

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"change in wave {self.wave}"

    def look(self, host: Host) -> Observed:
        """It waits."""
        return Differs(f"wave {self.wave} has not begun")

    def act(self, host: Host, clock: Clock) -> None:
        """Nothing on a host is done by waiting."""
        raise Conflict(f"{self.spec.name} waits for wave {self.wave}")
