"""A journalled step with the hosts it is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpumgr.engine import steps
from vgpumgr.engine.steps import Around, Between, Step
from vgpumgr.model.journal import StepRecord, TaskRecord
from vgpumgr.model.observed import Observed
from vgpumgr.model.ports import Host


@dataclass(frozen=True, slots=True)
class OnOne:
    """A step on one host."""

    step: Step
    host: Host
    around: Around

    @property
    def line(self) -> str:
        """What it does, and where."""
        return f"{self.step.summary} on {self.host.name}"

    def look(self) -> Observed:
        """Is the host as the step leaves it?"""
        return self.step.look(self.host)

    def renew(self) -> None:
        """Half of it is taken away by a step that is not atomic."""
        if not self.step.atomic:
            self.step.undo(self.host)

    def act(self) -> None:
        """Do it."""
        self.step.within(self.host, self.around)

    def undo(self) -> None:
        """Take it back."""
        self.step.undo(self.host)


@dataclass(frozen=True, slots=True)
class OnTwo:
    """A step between the host that a VM leaves and its target."""

    step: Between
    source: Host
    target: Host
    around: Around

    @property
    def line(self) -> str:
        """What it does, and between which."""
        return f"{self.step.summary}, {self.source.name} → {self.target.name}"

    def look(self) -> Observed:
        """Are both as the step leaves them?"""
        return self.step.look(self.source, self.target)

    def renew(self) -> None:
        """Take away what a cut attempt left."""
        self.step.renew(self.source, self.target)

    def act(self) -> None:
        """Do it."""
        self.step.act(self.source, self.target, self.around)

    def undo(self) -> None:
        """Take it back."""
        self.step.undo(self.source, self.target)


def bind(
    record: StepRecord, task: TaskRecord, hosts: Mapping[str, Host], around: Around
) -> OnOne | OnTwo:
    """The step that a record describes, with its hosts."""
    step = steps.from_record(record)
    if isinstance(step, Between):
        return OnTwo(step, hosts[task.host], hosts[task.peer], around)
    return OnOne(step, hosts[record.host or task.host], around)
