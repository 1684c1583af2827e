"""The product's own placement, through its public API, as a policy of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.placement.bulk_order import place_bulk
from benchmarks.placement.policy import Place
from benchmarks.placement.request_learner import RequestLearner
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.supply import fleet_of, vm_of
from benchmarks.placement.traces import Shape
from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.vm import DEFAULT_POLICY, PlacementPolicy, VmSpec
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, NoPlan
from vgpumgr.placement.placer import Placer

NO_LIMIT = 1e9
"""A quota that is never used up."""


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What of the default policy is in; all of it, as the product runs it.

    ``mix`` from what has been asked for, ``learns`` on from what comes; of the plan ``prices`` and
    ``quotas``, with neither there is none.
    """

    mix: bool = True
    learns: bool = True
    prices: bool = True
    quotas: bool = True

    def of(self, plan: CapacityPlan | NoPlan) -> CapacityPlan | NoPlan:
        """What is left of the plan."""
        if isinstance(plan, NoPlan):
            return plan
        prices = plan.prices if self.prices else ()
        quotas = plan.quotas if self.quotas else np.full_like(plan.quotas, NO_LIMIT)
        return replace(plan, prices=prices, quotas=quotas)


ALL = Ingredients()


class Product:
    """``Placer`` under one policy, and ``RequestLearner``; it knows ``history`` and the past."""

    def __init__(
        self,
        arrivals: Arrivals,
        policy: PlacementPolicy = DEFAULT_POLICY,
        history: Sequence[Shape] = (),
        parts: Ingredients = ALL,
    ) -> None:
        fleet = fleet_of(arrivals.hosts, arrivals.shapes)
        self._placer = Placer(fleet, policy, seed=arrivals.seed)
        self._parts = parts
        self._vms = [vm_of(shape) for shape in arrivals.shapes]
        self._host = {host.name: number for number, host in enumerate(fleet.hosts)}
        self._gpu = {gpu.id: n for host in fleet.hosts for n, gpu in enumerate(host.gpus)}
        self._held: dict[int, Placed] = {}
        steered = policy is DEFAULT_POLICY and parts.mix
        past = [vm_of(shape) for shape in history]
        self._learning = RequestLearner(self._placer, past) if steered else None
        self._plan()

    def place(self, request: int, kind: int) -> Place | None:
        """Decide a request of this shape and hold what it takes; None is a refusal."""
        vm = self._seen(request, kind)
        decision = self._placer.decide(vm, explain=False)
        if isinstance(decision, Placed):
            self._placer.commit(decision)
        return self._noted(request, decision)

    def release(self, request: int) -> None:
        """Give back what the request holds."""
        self._placer.release(self._held.pop(request))

    def rest(self) -> None:
        """Make the plan that is due."""
        if self._parts.learns:
            self._plan()

    def _plan(self) -> None:
        make = self._learning.due() if self._learning else None
        if make and self._learning and (self._parts.prices or self._parts.quotas):
            self._learning.adopt(self._parts.of(make()))

    def _seen(self, request: int, kind: int) -> VmSpec:
        vm = replace(self._vms[kind], name=f"vm-{request}")
        if self._learning and self._parts.learns:
            self._learning.see(vm)
        return vm

    def _noted(self, request: int, decision: Decision) -> Place | None:
        if not isinstance(decision, Placed):
            return None
        self._held[request] = decision
        gpus = tuple(self._gpu[part.gpu] for part in decision.assignments)
        return Place(self._host[decision.host], gpus)


class BulkProduct(Product):
    """The same, given whole windows as one order each."""

    def place_all(self, requests: Sequence[int], kinds: Sequence[int]) -> list[Place | None]:
        """Decide them in an order of the product's own and hold what they take."""
        vms = [self._seen(*each) for each in zip(requests, kinds, strict=True)]
        decisions = place_bulk(self._placer, vms, explain=False)
        return [self._noted(*each) for each in zip(requests, decisions, strict=True)]
