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


class Rater(Protocol):
    """How good hosts are for the types it was made for; rules about hosts themselves left out."""

    def rate(self, number: int) -> Scores:
        """The scores of one host, by type."""

    def rate_many(self, hosts: Ints) -> Scores:
        """[types × hosts] the scores of these hosts."""


class Plane(ABC):
    """``scores[type, host]``: higher is better, NEVER where the type has no room."""

    kind: type[np.floating[Any]] = np.float64

    def __init__(self, hosts: HostRows, standing: HostFilters, table: StateTable) -> None:
        self.hosts = hosts
        self.table = table
        self.wants = RequestTypes(table)
        self.scores: Scores = np.full((8, len(hosts.states)), NEVER, self.kind)
        self._standing = standing
        self._stands = np.zeros((8, len(hosts.states)), np.bool_)
        self._choosy: list[int] = []
        self._known: dict[int, Scores] = {}

    @abstractmethod
    def rater(self, wants: RequestTypes) -> Rater:
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
        first = len(self.wants.demands)
        self.wants.add(demands)
        end = len(self.wants.demands)
        shape = end, len(self.hosts.states)
        self.scores = grown(self.scores, shape, NEVER)
        self._stands = grown(self._stands, shape)
        for number in range(first, end):
            demand = self.wants.demands[number]
            self._stands[number] = self._standing.of(demand)
            if has_affinity(demand):
                self._choosy.append(number)
        self._renew(first)

    def score_anew(self) -> None:
        """Score every host anew: what is good has changed."""
        if self.wants.demands:
            self._renew(0)

    def update(self, number: int, *, company: bool) -> None:
        """Score one host anew: it has changed; ``company``: so have the labels of VMs on it."""
        count = len(self.wants.demands)
        if company:
            self._ask(number, self._choosy)
        if count:
            stands = self._stands[:count, number]
            self.scores[:count, number] = np.where(stands, self._rated(number), NEVER)

    def restand(self, number: int) -> None:
        """Ask the rules about the host itself anew."""
        self._ask(number, range(len(self.wants.demands)))
        self.update(number, company=False)

    def reorder(self, order: Ints) -> None:
        """Put the hosts in another order."""
        self.scores, self._stands = self.scores[:, order], self._stands[:, order]

    def _renew(self, first: int) -> None:
        """Fill the rows from type ``first`` on, and rate all types from here."""
        new = RequestTypes(self.table)
        new.add(self.wants.demands[first:])
        self._fill(slice(first, len(self.wants.demands)), self.rater(new))
        self._known.clear()
        self._rater = self.rater(self.wants)

    def _fill(self, new: slice, rater: Rater) -> None:
        """One host of those that are alike stands for all of them."""
        into, examples = self.scores[new], self.hosts.alike.examples()
        some = np.flatnonzero(examples >= 0)
        scores = rater.rate_many(examples[some])
        column = np.zeros(len(examples), np.int64)
        column[some] = np.arange(len(some))
        columns = column[self.hosts.alike.group]
        for number, row in enumerate(scores):
            into[number] = row[columns]
        into[~self._stands[new]] = NEVER

    def _ask(self, number: int, types: Iterable[int]) -> None:
        for each in types:
            self._stands[each, number] = self._standing.on(number, self.wants.demands[each])

    def _rated(self, number: int) -> Scores:
        digest = self.hosts.alike.digests[number]
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
