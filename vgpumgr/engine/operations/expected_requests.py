"""Expected requests: the declared mix, else what the ledger's history of requests teaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vgpumgr.model.history import RequestOutcome, RequestRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import Mix, place
from vgpumgr.placement.batch.batch_problem import Solver
from vgpumgr.placement.capacity_plan.plan_maker import FEWEST, make_plan
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, NoPlan
from vgpumgr.placement.request_mix import FIRST_MIX, REMEMBERED, made_by

_CAPACITY = PlacementPolicy.CAPACITY_FIRST


class PlaceFunction(Protocol):
    """Decides requests, each using up supply for the others."""

    def __call__(
        self,
        fleet: Fleet,
        requests: Sequence[VmSpec],
        *,
        kept: Sequence[VmSpec] = (),
        taken: Sequence[Placed] = (),
    ) -> tuple[Decision, ...]:
        """A decision for each request; before them what is ``taken`` is used up, and VMs of
        ``kept`` take their places.
        """


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
class PlacementOutlook:
    """The expected mix of requests and the plan for it; ``mix`` None: all profiles alike.

    ``missing`` says why no plan could be made; None too where too few requests are known for one.
    """

    mix: Mix | None = None
    plan: CapacityPlan | None = None
    missing: NoPlan | None = None

    @property
    def warning(self) -> str:
        """The warning that a plan is lacking where it would do good; empty otherwise."""
        if self.missing is None or not self.missing.is_a_loss:
            return ""
        return f"VMs are placed without a plan of what is expected: {self.missing}"


def _nothing() -> Weights:
    return ()


class ExpectedRequests:
    """The declared mix, else the requests of the last 30 days. Keeps the plan that it made last.

    ``latest`` is what decisions went by last. ``declared`` is asked for when a mix is first needed.
    ``solver`` is what orders that do not fit one by one are tried with.
    """

    def __init__(
        self, declared: Callable[[], Weights] = _nothing, solver: Solver | None = None
    ) -> None:
        self.solver = solver
        self.latest = PlacementOutlook()
        self._declared = declared
        self._plan: CapacityPlan | NoPlan | None = None
        self._made_at: float | None = None
        self._asked: list[VmSpec] = []
        self._read_at: float | None = None

    @property
    def words(self) -> str:
        """The source of the mix, where there is one."""
        return "the declared mix" if self._declared() else "the requests of the last 30 days"

    def mix(self, ledger: Ledger, now: float, fleet: Fleet) -> Mix | None:
        """The mix alone."""
        return self._mix(self._declared() or None, ledger, now, fleet)[0]

    def outlook(self, ledger: Ledger, now: float, fleet: Fleet) -> PlacementOutlook:
        """Mix and plan for a fleet as it is now (Unix seconds)."""
        mix, history = self._mix(self._declared() or None, ledger, now, fleet)
        if self._is_due(now):
            self._plan = make_plan(fleet, history) if len(history) >= FEWEST else None
            self._made_at = now
        if isinstance(self._plan, CapacityPlan):
            self.latest = PlacementOutlook(mix, self._plan)
        else:
            self.latest = PlacementOutlook(mix, missing=self._plan)
        return self.latest

    def _is_due(self, now: float) -> bool:
        lasts = PLAN_LASTS_S if isinstance(self._plan, CapacityPlan) else NO_PLAN_LASTS_S
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


def place_function(
    policy: PlacementPolicy, expected: ExpectedRequests, ledger: Ledger, now: float
) -> PlaceFunction:
    """``placement.place`` by the policy, which goes by what is expected where that matters."""

    def decide(
        fleet: Fleet,
        requests: Sequence[VmSpec],
        *,
        kept: Sequence[VmSpec] = (),
        taken: Sequence[Placed] = (),
    ) -> tuple[Decision, ...]:
        if all((each.policy or policy) is not _CAPACITY for each in requests):
            return place(fleet, requests, policy, kept=kept, taken=taken)
        found = expected.outlook(ledger, now, fleet)
        return place(
            fleet, requests, policy,
            kept=kept, taken=taken, mix=found.mix, plan=found.plan, solver=expected.solver,
        )  # fmt: skip

    return decide


def asked(newest_first: Iterable[RequestRecord]) -> list[VmSpec]:
    """Past requests, the oldest first: a refused VM counts once, however often it was tried, and
    not where it was placed later.
    """
    found: list[VmSpec] = []
    counted: set[str] = set()
    for request in newest_first:
        if request.answer is RequestOutcome.PLACED or request.vm not in counted:
            found.append(request.spec)
        counted.add(request.vm)
    return found[::-1]


def _spread(weights: Weights) -> list[VmSpec]:
    total = sum(weight for _, weight in weights)
    return [
        spec for spec, weight in weights for _ in range(max(1, round(_DECLARED * weight / total)))
    ]
