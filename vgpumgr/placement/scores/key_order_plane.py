"""The score planes of ``breadth-first`` and ``depth-first``, exact by whole keys.

The matrix holds the head of each key, or less: it never puts a host too low. Of the hosts at the
top the one with the best host key is fitted exactly, and its score corrected where
it was too high. Only for VMs of several parts that the head says too little of are the rest of them
fitted too, one host of each class.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.fit.host_fit import Fit, find_fit
from vgpumgr.placement.fit.policy_keys import BREADTH, packed_key, packed_rank
from vgpumgr.placement.resources.demand import Demand, rank
from vgpumgr.placement.resources.gpu_state import BoardBook
from vgpumgr.placement.scores.compiled import CompiledRating, address, library
from vgpumgr.placement.scores.score_plane import NEVER, Plane, Scores, masked, one_by_one
from vgpumgr.placement.tables.gpu_states import NOTHING, StateTable
from vgpumgr.placement.tables.host_table import HostFilters, HostRoom, HostRows
from vgpumgr.placement.tables.request_types import Flags, Ints, RequestTypes

# Fields of a head side by side: a packed key has 39 bits, all of it 53, so sums are exact.

_SIZE = float(1 << 39)
_MOST_SIZES = 1 << 9
_BROKEN = float(1 << 48)
_OFF_NODE = float(1 << 51)
_VAGUE = -float(1 << 52)


class KeyHeads:
    """The first fields of whole keys under one policy: of a fit, and of GPUs by state.

    Parts by size go by the size of the offer first: ``sizes`` are the ranks of all offers in order.
    """

    def __init__(self, policy: PlacementPolicy, boards: BoardBook) -> None:
        self.policy = policy
        ranks = {packed_rank(rank(offer)) for board in boards for offer in board.offers}
        self.sizes = np.array(sorted(ranks), np.int32)

    def vague(self, demand: Demand) -> bool:
        """Whether the best GPU by itself says too little of the key."""
        sized = any(not kind.profile for kind in demand.kinds)
        unclear = sized and len(self.sizes) >= _MOST_SIZES
        return unclear or len(demand.kinds) > 1 or demand.vgpus > 1

    def of_states(self, table: StateTable, rows: Ints, columns: Ints) -> Scores:
        """Heads by state (any shape), of a GPU that takes one part more; inf without room."""
        heads = table.keys_by(self.policy)[rows, columns]
        return heads + self._size(table.ranks[rows, columns]) * _SIZE

    def of_fit(self, demand: Demand, fit: Fit) -> float:
        """The head of a fit's whole key, as the rater would put it if it knew."""
        misses, (broken, *keys), _ = fit.score
        if self.vague(demand):
            return misses * _OFF_NODE + _VAGUE
        head = misses * _OFF_NODE + broken[0] * _BROKEN
        if not keys:
            return head
        if demand.kinds[0].profile:
            return head + packed_key(self.policy, keys[0])
        size = self._size(np.array(packed_rank(rank(fit.picks[0].offer)), np.int32))
        return head + float(size) * _SIZE + packed_key(self.policy, keys[0][_RANK:])

    def _size(self, ranks: NDArray[np.int32]) -> Scores:
        """1 and up for parts by size, 0 for parts by name, whose rank is 0."""
        found: Scores = np.searchsorted(self.sizes, ranks, side="right")
        return found


_RANK = 4
"""Fields of a rank, which whole keys of parts by size begin with."""


class KeyOrderRater:
    """See ``Rater``. Scores are packed heads of keys, negative: never lower than the whole key."""

    def __init__(
        self, hosts: HostRows, table: StateTable, request_types: RequestTypes, heads: KeyHeads
    ) -> None:
        self._hosts = hosts
        self._table = table
        self._request_types = request_types
        self._heads = heads
        self._room = HostRoom(hosts, request_types, table)
        demands = request_types.demands
        self._vague = np.array([heads.vague(demand) for demand in demands], np.bool_)
        self._known: dict[Hashable, Scores] = {}
        self._compiled: CompiledRating | None = None
        if CompiledRating.knows(hosts, request_types):
            self._compiled = CompiledRating(hosts, table, request_types)
            self._compiled.set_up([("vague", self._vague), ("size_ranks", heads.sizes)])
            self._compiled.set_up(
                off_node=_OFF_NODE, vague_head=_VAGUE, size_field=_SIZE, sizes=len(heads.sizes)
            )

    def write(self, number: int, scores: Scores, allowed: Flags) -> bool:
        """See ``Rater``."""
        if self._compiled is not None:
            self._compiled.heads(number, self._keys, scores, allowed)
        return self._compiled is not None

    def _keys(self) -> Scores:
        return self._table.keys_by(self._heads.policy)

    def rate(self, number: int) -> Scores:
        """The scores of one host, by type."""
        heads = self._of_gpus(np.sort(self._hosts.rows[number]))
        fits, off_node = self._room.on(number)
        return masked(-(heads + off_node * _OFF_NODE), fits)

    def rate_many(self, hosts: Ints) -> Scores:
        """[types × hosts] type by type where that can be done and there are fewer of them."""
        request_types = self._request_types
        scores = np.empty((len(request_types.demands), len(hosts)))
        by_type = request_types.on_many
        if by_type.sum() >= len(hosts):
            by_type = np.zeros_like(by_type)
        if by_type.any():
            self._table.open_rows(np.unique(self._hosts.rows[hosts]).tolist())
        for number in np.flatnonzero(by_type).tolist():
            scores[number] = self._of_type(number, hosts)
        rest = np.flatnonzero(~by_type)
        if len(rest):
            only = request_types.only(rest.tolist())
            rater = KeyOrderRater(self._hosts, self._table, only, self._heads)
            scores[rest] = one_by_one(rater, len(rest), hosts)
        return scores

    def _of_type(self, number: int, hosts: Ints) -> Scores:
        """The scores of many hosts for one type of parts of one kind at most."""
        fits, off_node = self._room.on_many(number, hosts)
        if self._vague[number]:
            heads = np.full(len(hosts), _VAGUE)
        elif self._request_types.has_parts[number]:
            column = self._request_types.columns[number, 0]
            rows, gpus = self._hosts.rows[hosts], np.full(self._hosts.width, column)
            heads = self._heads.of_states(self._table, rows, gpus).min(axis=1)
        else:
            heads = np.zeros(len(hosts))
        return masked(-(heads + off_node * _OFF_NODE), fits)

    def _of_gpus(self, gpus: Ints) -> Scores:
        key = gpus.tobytes()
        if key not in self._known:
            self._known[key] = self._heads_on(gpus)
        return self._known[key]

    def _heads_on(self, gpus: Ints) -> Scores:
        """By type the head of the best GPU's key."""
        request_types = self._request_types
        states = np.unique(gpus[gpus != NOTHING])
        self._table.open_rows(states.tolist())
        heads = np.zeros(len(request_types.demands))
        if len(states):
            columns = request_types.columns[None, :, 0]
            best = self._heads.of_states(self._table, states[:, None], columns).min(axis=0)
            heads = np.where(request_types.has_parts, best, 0.0)
        return np.where(self._vague, _VAGUE, heads)


class KeyOrderPlane(Plane):
    """The best host of a row by the whole key; equal keys go by the order of the hosts."""

    def __init__(
        self, hosts: HostRows, filters: HostFilters, table: StateTable, heads: KeyHeads
    ) -> None:
        super().__init__(hosts, filters, table)
        self._heads = heads
        self._fits: dict[int, dict[int, tuple[int, Fit | None]]] = {}

    def rater(self, request_types: RequestTypes) -> KeyOrderRater:
        """A rater for these types."""
        return KeyOrderRater(self.hosts, self.table, request_types, self._heads)

    def reorder(self, order: Ints) -> None:
        """Put the hosts in another order."""
        super().reorder(order)
        self._fits.clear()

    def best(self, number: int) -> Fit | None:
        """Where a VM of type ``number`` goes."""
        row, vague = self.scores[number], self._heads.vague(self.request_types.demands[number])
        while (first := self._first(row)) >= 0:
            top = row[first]
            fit = None if vague else self._fit_at_top(number, first, -float(top))
            if fit is not None and _same_parts(fit):
                return fit
            if fit is not None or vague:
                fit = self._compared(number, np.flatnonzero(row == top), -float(top))
                if fit is not None:
                    return fit
        return None

    def _first(self, row: Scores) -> int:
        """Of the hosts at the top the one with the best host key, of those the first; -1: none."""
        hosts = self.hosts
        sign = -1 if self._heads.policy is BREADTH else 1
        amounts = hosts.units, hosts.memory, hosts.cpu
        if (compiled := library()) is not None:
            at: int = compiled.best_of_keys(address(row), len(row), sign, *map(address, amounts))
            return at
        top = row.max(initial=NEVER)
        tied = np.flatnonzero(row == top) if top > NEVER else np.zeros(0, np.int64)
        for amount in amounts if len(tied) else ():
            key = sign * amount[tied]
            tied = tied[key == key.min()]
        return int(tied[0]) if len(tied) else -1

    def _compared(self, number: int, tied: Ints, top: float) -> Fit | None:
        """The best of these by the whole key, the first of each class of hosts for all of it."""
        groups = np.where(self.hosts.partitioned[tied], -1 - tied, self.hosts.classes.group()[tied])
        _, first, group = np.unique(groups, return_index=True, return_inverse=True)
        fits = []
        for at in np.sort(first).tolist():
            fit = self._fit_at_top(number, int(tied[at]), top)
            if fit is None:
                same = tied[group == group[at]]
                self.scores[number, same] = self.scores[number, tied[at]]
            else:
                fits.append(fit)
        return min(fits, key=lambda fit: fit.score, default=None)

    def _fit_at_top(self, number: int, host: int, top: float) -> Fit | None:
        """The fit on a host that seems to have this head; if not, its score is corrected."""
        fit = self._fit(number, host)
        demand = self.request_types.demands[number]
        own = np.inf if fit is None else self._heads.of_fit(demand, fit)
        if own <= top:
            return fit
        self.scores[number, host] = -own
        return None

    def _fit(self, number: int, host: int) -> Fit | None:
        """Looked for once as long as the host does not change."""
        state, known = self.hosts.states[host], self._fits.setdefault(number, {})
        version, fit = known.get(host, (-1, None))
        if version != state.version:
            fit = find_fit(state, self.request_types.demands[number])
            known[host] = state.version, fit
        return fit


def _same_parts(fit: Fit) -> bool:
    """Whether no part of it lies worse than the first, so that no host of that head is better."""
    return all(pick.key == fit.picks[0].key for pick in fit.picks)
