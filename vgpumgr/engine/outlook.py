"""What ``least-fragmentation`` goes by: the mix that is expected, a plan, a solver of orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vgpumgr.model.history import Answer, RequestRecord
from vgpumgr.model.placement import Decision, Fleet
from vgpumgr.model.ports import Ledger
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import Mix, place
from vgpumgr.placement.joint import Solver
from vgpumgr.placement.learning import FIRST_MIX, REMEMBERED
from vgpumgr.placement.mix import made_by
from vgpumgr.placement.plan import NoPlan, Plan, make_plan

_LEAST = PlacementPolicy.LEAST_FRAGMENTATION


class Place(Protocol):
    """Decides requests, each using up supply for the others."""

    def __call__(
        self, fleet: Fleet, requests: Sequence[VmSpec], *, kept: Sequence[VmSpec] = ()
    ) -> tuple[Decision, ...]:
        """A decision for each request; VMs of ``kept`` take their places before them."""


Weights = tuple[tuple[VmSpec, float], ...]

# How far back requests tell what will come.
HISTORY_S = 30 * 86_400.0
# A plan serves for so long; where none could be made, that is tried again after so long.
PLAN_LASTS_S, NO_PLAN_LASTS_S = 3_600.0, 60.0
# What was asked for is read anew after so long: twenty thousand requests take most of a second.
HISTORY_LASTS_S = 60.0
# A declared mix stands for as many requests.
_DECLARED = 1_000


@dataclass(frozen=True, slots=True)
class Outlook:
    """``mix`` None: nothing is known, so all that the fleet can make, alike."""

    mix: Mix | None = None
    plan: Plan | None = None
    missing: NoPlan | None = None

    @property
    def warning(self) -> str:
        """That there is no plan where one would do good; empty otherwise."""
        if self.missing is None or not self.missing.is_a_loss:
            return ""
        return f"VMs are placed without a plan of what is expected: {self.missing}"


def _nothing() -> Weights:
    return ()


class Expected:
    """The declared mix, else the requests of the last 30 days. Keeps the plan that it made last.

    ``latest`` is what decisions went by last. ``declared`` is asked for when a mix is first needed.
    ``solver`` is what orders that do not fit one by one are tried with.
    """

    def __init__(
        self, declared: Callable[[], Weights] = _nothing, solver: Solver | None = None
    ) -> None:
        self.solver = solver
        self.latest = Outlook()
        self._declared = declared
        self._plan: Plan | NoPlan = NoPlan.TOO_FEW
        self._made_at: float | None = None
        self._asked: list[VmSpec] = []
        self._read_at: float | None = None

    @property
    def words(self) -> str:
        """What the mix is, where there is one."""
        return "the declared mix" if self._declared() else "the requests of the last 30 days"

    def mix(self, ledger: Ledger, now: float, fleet: Fleet) -> Mix | None:
        """The mix alone."""
        return self._mix(self._declared() or None, ledger, now, fleet)[0]

    def outlook(self, ledger: Ledger, now: float, fleet: Fleet) -> Outlook:
        """Mix and plan for a fleet as it is now (Unix seconds)."""
        mix, history = self._mix(self._declared() or None, ledger, now, fleet)
        if self._is_due(now):
            self._plan = make_plan(fleet, history)
            self._made_at = now
        self.latest = _outlook(mix, self._plan)
        return self.latest

    def _is_due(self, now: float) -> bool:
        lasts = PLAN_LASTS_S if isinstance(self._plan, Plan) else NO_PLAN_LASTS_S
        return self._made_at is None or now - self._made_at > lasts

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


def _outlook(mix: Mix | None, plan: Plan | NoPlan) -> Outlook:
    if isinstance(plan, Plan):
        return Outlook(mix, plan)
    return Outlook(mix, missing=plan)


def placing(policy: PlacementPolicy, expected: Expected, ledger: Ledger, now: float) -> Place:
    """``placement.place`` by the policy, which goes by what is expected where that matters."""

    def decide(
        fleet: Fleet, requests: Sequence[VmSpec], *, kept: Sequence[VmSpec] = ()
    ) -> tuple[Decision, ...]:
        if all((each.policy or policy) is not _LEAST for each in requests):
            return place(fleet, requests, policy, kept=kept)
        found = expected.outlook(ledger, now, fleet)
        return place(
            fleet, requests, policy,
            kept=kept, mix=found.mix, plan=found.plan, solver=expected.solver,
        )  # fmt: skip

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
