"""Keeps a ``Placer``'s mix and plan in step with what is asked for, from the empty fleet on.

Commands and ``serve`` read the ledger's history instead, each time. A newer mix is adopted when
twice as much is known as the one before it was made of, and a newer plan likewise: seldom, and the
more seldom the less there is to learn. Nothing here depends on what is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from vgpumgr.model.vm import VmSpec
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.capacity_plan.plan_maker import FEWEST, make_plan
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, NoPlan
from vgpumgr.placement.request_mix import FIRST_MIX, REMEMBERED


class RequestLearner:
    """Keeps one Placer's mix and plan in step with what is asked for. No I/O, no clock, no threads.

    ``history`` is what was asked for before, the oldest first: its mix is adopted at once, and its
    plan is due. Without one, the Placer's own mix serves for the first ten requests.
    """

    def __init__(self, placer: Placer, history: Iterable[VmSpec] = ()) -> None:
        self._placer = placer
        self._seen = deque(history, maxlen=REMEMBERED)
        self._mix = _Doubling(FIRST_MIX)
        self._plan = _Doubling(FEWEST)
        self._note(len(self._seen))

    def see(self, request: VmSpec) -> None:
        """Note a request, once, when it comes; placed or not makes no difference.

        Where a newer mix is due it is adopted here: the next decision scores every host anew.
        """
        self._seen.append(request)
        self._note(1)

    def due(self) -> Callable[[], CapacityPlan | NoPlan] | None:
        """The making of a newer plan, when one is due; each is given out once.

        It takes seconds and touches nothing of the Placer: call it in a thread, or (it can be
        pickled) in a process, and ``adopt`` what it returns.
        """
        if not self._plan.take():
            return None
        return partial(make_plan, self._placer.fleet, tuple(self._seen))

    def adopt(self, plan: CapacityPlan | NoPlan) -> None:
        """Go by this plan; where none could be made, by the one there is."""
        if isinstance(plan, CapacityPlan):
            self._placer.adopt_plan(plan)

    def catch_up(self) -> None:
        """Make the plan that is due here and now, and adopt it; nothing where none is."""
        if make := self.due():
            self.adopt(make())

    def _note(self, count: int) -> None:
        self._mix.add(count)
        self._plan.add(count)
        if self._mix.take():
            self._placer.adopt_mix(Mix.of(self._seen))


class _Doubling:
    """Due at ``first`` requests, then whenever as many have come as were known the last time."""

    def __init__(self, first: int) -> None:
        self._need = first
        self._known = 0
        self._new = 0

    def add(self, count: int) -> None:
        self._new += count

    def take(self) -> bool:
        """Whether it is due; asked again, it no longer is."""
        if self._new < self._need:
            return False
        self._known = self._need = min(self._known + self._new, REMEMBERED)
        self._new = 0
        return True
