"""Score plane: every request type of one policy scored on every host, host by host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.fit.host_fit import Fit
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.tables.gpu_states import StateTable, grown
from vgpumgr.placement.tables.host_table import HostFilters, HostRows, has_affinity
from vgpumgr.placement.tables.request_types import Flags, Ints, RequestTypes

NEVER = -np.inf
"""The score of a host that does not fit."""

Scores = NDArray[Any]

_REMEMBERED = 4096

_AT_ONCE = 1024
"""Hosts: the more, the fewer calls of NumPy; for a mix of 80 types some MiB at a time."""


class Rater(Protocol):
    """How good hosts are for the types it was made for; rules about hosts themselves left out."""

    def rate(self, number: int) -> Scores:
        """The scores of one host, by type."""

    def write(self, number: int, scores: Scores, allowed: Flags) -> bool:
        """Write the scores of one host into its column of a plane, if it can do so quickly."""

    def rate_many(self, hosts: Ints) -> Scores:
        """[types × hosts] the scores of these hosts."""


class Plane(ABC):
    """``scores[type, host]``: higher is better, NEVER where the type has no room."""

    kind: type[np.floating[Any]] = np.float64

    def __init__(self, hosts: HostRows, filters: HostFilters, table: StateTable) -> None:
        self.hosts = hosts
        self.table = table
        self.request_types = RequestTypes(table)
        self.scores: Scores = np.full((8, len(hosts.states)), NEVER, self.kind)
        self._filters = filters
        self._allowed = np.zeros((8, len(hosts.states)), np.bool_)
        self._with_affinity: list[int] = []
        self._known: dict[int, Scores] = {}

    @abstractmethod
    def rater(self, request_types: RequestTypes) -> Rater:
        """A rater for these types."""

    @abstractmethod
    def best(self, number: int) -> Fit | None:
        """Where a VM of type ``number`` goes."""

    def best_but(self, number: int, hosts: Sequence[int]) -> Fit | None:
        """The same without these hosts."""
        row, left_out = self.scores[number], list(hosts)
        before = row[left_out]
        row[left_out] = NEVER
        try:
            return self.best(number)
        finally:
            row[left_out] = before

    def add(self, demands: Sequence[Demand]) -> None:
        """More types: their scores on every host."""
        first = len(self.request_types.demands)
        self.request_types.add(demands)
        end = len(self.request_types.demands)
        shape = end, len(self.hosts.states)
        self.scores = grown(self.scores, shape, NEVER)
        self._allowed = grown(self._allowed, shape)
        for number in range(first, end):
            demand = self.request_types.demands[number]
            self._allowed[number] = self._filters.of(demand)
            if has_affinity(demand):
                self._with_affinity.append(number)
        self._renew(first)

    def score_anew(self) -> None:
        """Score every host again: mix or plan has changed."""
        if self.request_types.demands:
            self._renew(0)

    def update(self, number: int, *, labels_changed: bool) -> None:
        """Score a changed host again; ``labels_changed``: labels of VMs on it changed too."""
        count = len(self.request_types.demands)
        if labels_changed:
            self._ask(number, self._with_affinity)
        if count and not self._rater.write(number, self.scores, self._allowed):
            allowed = self._allowed[:count, number]
            self.scores[:count, number] = np.where(allowed, self._rated(number), NEVER)

    def refilter(self, number: int) -> None:
        """Ask the rules about the host itself again."""
        self._ask(number, range(len(self.request_types.demands)))
        self.update(number, labels_changed=False)

    def reorder(self, order: Ints) -> None:
        """Put the hosts in another order."""
        self.scores = np.take(self.scores, order, axis=1)
        self._allowed = np.take(self._allowed, order, axis=1)

    def _renew(self, first: int) -> None:
        """Fill the rows from type ``first`` on, and rate all types from here."""
        new = RequestTypes(self.table)
        new.add(self.request_types.demands[first:])
        self._fill(slice(first, len(self.request_types.demands)), self.rater(new))
        self._known.clear()
        self._rater = self.rater(self.request_types)

    def _fill(self, new: slice, rater: Rater) -> None:
        """One host of those that are alike stands for all of them; some thousand at a time."""
        into, group = self.scores[new], self.hosts.classes.group()
        by_class = np.argsort(group, kind="stable")
        begins = np.diff(group[by_class], prepend=-1) > 0
        starts, column = np.flatnonzero(begins), np.cumsum(begins) - 1
        for first in range(0, len(starts), _AT_ONCE):
            some = starts[first : first + _AT_ONCE + 1]
            these = slice(some[0], some[-1] if len(some) > _AT_ONCE else None)
            scores = rater.rate_many(by_class[some[:_AT_ONCE]])
            into[:, by_class[these]] = scores[:, column[these] - first]
        into[~self._allowed[new]] = NEVER

    def _ask(self, number: int, types: Iterable[int]) -> None:
        for each in types:
            self._allowed[each, number] = self._filters.on(number, self.request_types.demands[each])

    def _rated(self, number: int) -> Scores:
        digest = self.hosts.classes.digest(number)
        found = self._known.get(digest)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[digest] = self._rater.rate(number)
        return found


def masked(scores: Scores, fits: Flags) -> Scores:
    """The scores where the type fits, else NEVER."""
    found: Scores = np.where(fits, scores, NEVER)
    return found


def one_by_one(rater: Rater, types: int, hosts: Ints) -> Scores:
    """[types × hosts] host by host."""
    scores = np.empty((types, len(hosts)))
    for column, host in enumerate(hosts.tolist()):
        scores[:, column] = rater.rate(host)
    return scores
