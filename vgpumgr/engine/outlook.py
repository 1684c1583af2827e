"""What ``least-fragmentation`` goes by: the mix that is expected, a plan, a solver of orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vgpumgr.model.history import Answer, RequestRecord
from vgpumgr.model.placement import Decision, Fleet
from vgpumgr.model.ports import Ledger
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import Mix, place
from vgpumgr.placement.joint import Solver
from vgpumgr.placement.learning import FIRST_MIX, REMEMBERED
from vgpumgr.placement.mix import made_by
from vgpumgr.placement.plan import Plan, make_plan

_LEAST = PlacementPolicy.LEAST_FRAGMENTATION

# Decides requests one after the other, each using up supply for the next.
Place = Callable[[Fleet, Sequence[VmSpec]], tuple[Decision, ...]]

Weights = tuple[tuple[VmSpec, float], ...]

# How far back requests tell what will come.
HISTORY_S = 30 * 86_400.0
# A plan is made in the way of a decision, so its program may take no longer each time that it is
# solved (twice, mostly), and it serves for so long.
PLAN_TAKES_S, PLAN_LASTS_S = 1.0, 3_600.0
# What was asked for is read anew after so long: twenty thousand requests take most of a second.
HISTORY_LASTS_S = 60.0
# A declared mix stands for as many requests.
_DECLARED = 1_000


@dataclass(frozen=True, slots=True)
class Outlook:
    """``mix`` None: nothing is known, so all that the fleet can make, alike."""

    mix: Mix | None = None
    plan: Plan | None = None


def _nothing() -> Weights:
    return ()


class Expected:
    """The declared mix, else the requests of the last 30 days. Keeps the plan that it made last.

    ``declared`` is asked for when a mix is first needed. ``solver`` is what orders that do not fit
    one by one are tried with.
    """

    def __init__(
        self, declared: Callable[[], Weights] = _nothing, solver: Solver | None = None
    ) -> None:
        self.solver = solver
        self._declared = declared
        self._plan: Plan | None = None
        self._made_at: float | None = None
        self._asked: list[VmSpec] = []
        self._read_at: float | None = None

    @property
    def words(self) -> str:
        """What the mix is, where there is one."""
        return "the declared mix" if self._declared() else "what was asked for in the last 30 days"

    def mix(self, ledger: Ledger, now: float, fleet: Fleet) -> Mix | None:
        """The mix alone."""
        return self._mix(self._declared() or None, ledger, now, fleet)[0]

    def outlook(self, ledger: Ledger, now: float, fleet: Fleet) -> Outlook:
        """Mix and plan for a fleet as it is now (Unix seconds)."""
        mix, history = self._mix(self._declared() or None, ledger, now, fleet)
        if self._made_at is None or now - self._made_at > PLAN_LASTS_S:
            self._plan = make_plan(fleet, history, seconds=PLAN_TAKES_S)
            self._made_at = now
        return Outlook(mix, self._plan)

    def _mix(
        self, declared: Weights | None, ledger: Ledger, now: float, fleet: Fleet
    ) -> tuple[Mix | None, Sequence[VmSpec]]:
        """The mix, and the requests that a plan is made of."""
        if declared is not None:
            made = made_by(fleet, [spec for spec, _ in declared])
            known = tuple(each for each in declared if each[0] in made)
            return (Mix(known) if known else None), _spread(known)
        if self._read_at is None or now - self._read_at > HISTORY_LASTS_S:
            self._asked = asked(ledger.requests(since=now - HISTORY_S, limit=REMEMBERED))
            self._read_at = now
        history = made_by(fleet, self._asked)
        return (Mix.of(history) if len(history) >= FIRST_MIX else None), history


def placing(policy: PlacementPolicy, expected: Expected, ledger: Ledger, now: float) -> Place:
    """``placement.place`` by the policy, which goes by what is expected where that matters."""

    def decide(fleet: Fleet, requests: Sequence[VmSpec]) -> tuple[Decision, ...]:
        if all((each.policy or policy) is not _LEAST for each in requests):
            return place(fleet, requests, policy)
        found = expected.outlook(ledger, now, fleet)
        return place(
            fleet, requests, policy, mix=found.mix, plan=found.plan, solver=expected.solver
        )

    return decide


def asked(newest_first: Iterable[RequestRecord]) -> list[VmSpec]:
    """What was asked for, the oldest first: a refused VM counts once, however often it was tried,
    and not where it was placed later.
    """
    found: list[VmSpec] = []
    counted: set[str] = set()
    for request in newest_first:
        if request.answer is Answer.PLACED or request.vm not in counted:
            found.append(request.spec)
        counted.add(request.vm)
    return found[::-1]


def _spread(weights: Weights) -> list[VmSpec]:
    total = sum(weight for _, weight in weights)
    return [
        spec for spec, weight in weights for _ in range(max(1, round(_DECLARED * weight / total)))
    ]
