"""The controller of `serve` on virtual time: hosts in this process, one turn after another."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.world import World
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_schedule import ControllerStatus, ProbePauses
from vgpumgr.engine.controller.cycle_threads import SerialCycleRunner
from vgpumgr.engine.operations.engine_context import EngineContext

INTERVAL_S = 30.0


class Killed(BaseException):
    """The process was killed at this call."""


class Served:
    """A controller over an engine context; what it told, and how it stood last."""

    def __init__(self, context: EngineContext, seed: int = 1) -> None:
        self.clock = context.clock
        self.events: list[ControllerEvent] = []
        self.status = ControllerStatus(at=0.0)
        self.controller = Controller(
            context,
            SerialCycleRunner(context.clock),
            ProbePauses(INTERVAL_S, spread=random.Random(seed)),
            emit=self.events.append,
            show=self._show,
        )

    def _show(self, status: ControllerStatus) -> None:
        self.status = status

    def serve(self, seconds: float, beat_s: float = 1.0) -> list[ControllerEvent]:
        """Let so much time pass; what was told meanwhile."""
        told, until = len(self.events), self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            self.controller.round(beat_s)
        return self.events[told:]

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    def told(self, kind: EventKind) -> list[ControllerEvent]:
        return [event for event in self.events if event.kind is kind]

    def state(self, host: str = "h1") -> str:
        return next(each.state for each in self.status.hosts if each.name == host)


def serving(world: World) -> Served:
    """A new process that serves a world's ledger."""
    return Served(replace(world.engine))


def kill_at(world: World, verb: str, *, host: str = "", after: int = 0) -> None:
    """From now on the process that calls ``verb`` on a host is killed, after so many calls."""
    left = [after]

    def die(name: str) -> None:
        if name == verb:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

    for each in world.hosts.values():
        if host in {"", each.name}:
            each.on_call = die


def live_on(world: World) -> None:
    """Nobody is killed any more."""
    for each in world.hosts.values():
        each.on_call = lambda _: None
