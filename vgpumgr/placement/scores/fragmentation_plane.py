"""The score plane of ``capacity-first``: hosts rated by waste, and the plan's soft quotas."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from vgpumgr.model.supply import Offer
from vgpumgr.placement.capacity_plan.quota_plan import group_key
from vgpumgr.placement.fit.host_fit import Fit, find_fit
from vgpumgr.placement.fit.policy_keys import Key, Keys
from vgpumgr.placement.resources.demand import Demand, surplus
from vgpumgr.placement.resources.gpu_slots import Spot
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.scores.compiled import CompiledRating
from vgpumgr.placement.scores.fragmentation import (
    OFF_GPUS,
    SAME,
    Measure,
    MixRows,
    Worths,
    crowding,
    cutting,
    leftover,
    summed,
)
from vgpumgr.placement.scores.host_outcomes import Outcomes, OutcomeTable
from vgpumgr.placement.scores.plan_quotas import PlanQuotas
from vgpumgr.placement.scores.score_plane import NEVER, Plane, Scores, masked, one_by_one
from vgpumgr.placement.tables.gpu_states import MILLI, StateTable
from vgpumgr.placement.tables.host_table import HostFilters, HostRoom, HostRows
from vgpumgr.placement.tables.request_types import Flags, Floats, Ints, RequestTypes

OFF_NODE = 1e6
"""With ``numa: prefer`` a VM on one node beats any that is not, on whatever host."""

UNKNOWN = -MILLI
"""Several parts may fit in a way that was not thought of: the exact fit will look for it."""

_AT_ONCE = 1024
"""Hosts: the more, the fewer calls of NumPy; for a mix of 80 types some MiB at a time."""


def scored(
    hosts: HostRows,
    mix: MixRows,
    gain: Floats,
    left: Ints,
    rows: Ints,
    gpus: tuple[Floats, Floats, Floats],
) -> Floats:
    """The score of choices: ``gain`` is by how much less is wasted, ``left`` are vCPUs,
    ``rows`` the states of the GPUs that are taken from, ``gpus`` how much of the host's GPUs is
    taken, free then, and idle then."""
    taken, free, idle = gpus
    whole = MILLI * hosts.width
    cost = leftover(left / hosts.most_cpu, idle / whole) + cutting(mix.idle[rows])
    if mix.spreading:
        alone = crowding(MILLI - mix.free[rows], MILLI - free / hosts.width)
        cost = np.where(np.abs(taken - mix.size[rows]) < SAME, alone, cost)
    score: Floats = gain - cost
    return score


_Choices = tuple[Ints, Ints, Ints, Ints, Floats]
"""Which of the hosts, states of some of their GPUs before and after, the states that count as cut,
and what is taken beyond what was asked for."""


class _Before:
    """Hosts as they are: ``gpus`` in order, how much of them is free, and useful to each entry."""

    def __init__(self, hosts: HostRows, mix: MixRows, some: Ints) -> None:
        self.cpu, self.memory, self.plain = hosts.cpu[some], hosts.memory[some], hosts.plain[some]
        self.gpus = gpus = np.sort(hosts.rows[some], axis=1)
        self.room, self.useful = summed(mix.room[gpus]), summed(mix.useful[gpus])
        self.free, self.idle = mix.free[gpus].sum(axis=1), mix.idle[gpus].sum(axis=1)
        held = np.where(self.room >= mix.need, self.useful, 0.0) * mix.weight
        self.held = np.einsum("hm,hm->h", mix.open_to(self.cpu, self.memory), held)


class TypeRater:
    """Rates one request type on many hosts: such as ``RequestTypes.on_many`` has."""

    def __init__(
        self,
        hosts: HostRows,
        table: StateTable,
        request_types: RequestTypes,
        mix: MixRows,
        room: HostRoom,
    ) -> None:
        self._hosts = hosts
        self._table = table
        self._request_types = request_types
        self._mix = mix
        self._room = room

    def rate(self, numbers: Sequence[int], hosts: Ints) -> Scores:
        """[types × hosts] the scores of some types on these hosts."""
        self._open(self._hosts.rows[hosts])
        scores = np.full((len(numbers), len(hosts)), NEVER)
        for first in range(0, len(hosts), _AT_ONCE):
            some = hosts[first : first + _AT_ONCE]
            room = [self._room.on_many(number, some) for number in numbers]
            any_fits = np.flatnonzero(np.logical_or.reduce([fits for fits, _ in room]))
            before = _Before(self._hosts, self._mix, some[any_fits])
            for row, number, (fits, off_node) in zip(scores, numbers, room, strict=True):
                these = np.flatnonzero(fits[any_fits])
                at = any_fits[these]
                row[first + at] = self._best(number, before, these) - off_node[at] * OFF_NODE
        return scores

    def ways(self, number: int, host: int) -> tuple[list[int], list[float]]:
        """States of a host's GPUs that a type of one part may take, and what each would score."""
        rows = self._hosts.rows[host]
        self._open(rows)
        column = int(self._request_types.columns[number, 0])
        was = np.array([row for row in sorted({*rows.tolist()}) if self._table.room[row, column]])
        if len(was) == 1:
            return was.tolist(), [0.0]
        after = self._mix.after(was, np.full_like(was, column))
        before = _Before(self._hosts, self._mix, np.array([host]))
        only = np.zeros_like(was)
        surplus = self._table.surplus[was, column]
        scores = self._score(number, before, only, was[:, None], after[:, None], was, surplus)
        return was.tolist(), scores.tolist()

    def _best(self, number: int, before: _Before, hosts: Ints) -> Scores:
        """The best that the type can make of some of the hosts."""
        if not self._request_types.has_parts[number]:
            none = np.zeros((len(hosts), 1), np.int64)
            nothing = np.zeros(len(hosts))
            return self._score(number, before, hosts, none, none, none[:, 0], nothing)
        best = np.full(len(hosts), NEVER)
        for these, was, after, taken, extra in self._choices_of_type(number, before.gpus[hosts]):
            scores = self._score(number, before, hosts[these], was, after, taken, extra)
            best[these] = np.maximum(best[these], scores)
        return np.where(best == NEVER, UNKNOWN, best)

    def _score(
        self,
        number: int,
        hosts: _Before,
        these: Ints,
        was: Ints,
        after: Ints,
        taken: Ints,
        surplus: Floats,
    ) -> Scores:
        """The scores of choices that ``_choices_of_type`` lists, host by host."""
        mix, request_types = self._mix, self._request_types

        def change(of: Measure) -> Floats:
            return summed(of[after] - of[was])

        left = hosts.cpu[these] - request_types.cpu[number]
        open_to = mix.open_to(left, hosts.memory[these] - request_types.memory[number])
        room = hosts.room[these] + change(mix.room)
        useful = hosts.useful[these] + change(mix.useful)
        held = np.where(room >= mix.need, useful, 0.0) * mix.weight
        free, idle = hosts.free[these] + change(mix.free), hosts.idle[these] + change(mix.idle)
        gain = np.einsum("hm,hm->h", open_to, held) - hosts.held[these]
        used = hosts.free[these] - free
        gain = gain + change(mix.worth) + used - surplus + OFF_GPUS * hosts.plain[these]
        return scored(self._hosts, mix, gain, left, taken, (used, free, idle))

    def _choices_of_type(self, number: int, gpus: Ints) -> Iterator[_Choices]:
        """For one part every state that takes it, for several parts one way to place them."""
        column, count = self._request_types.bundles[number][0]
        if count > 1:
            yield self._packed_parts(gpus, column, count)
            return
        for at in range(gpus.shape[1]):
            takes = self._table.room[gpus[:, at], column] > 0
            if at:
                takes &= gpus[:, at] != gpus[:, at - 1]
            these = np.flatnonzero(takes)
            if len(these):
                was = gpus[these, at]
                after = self._mix.after(was, np.full_like(was, column))
                yield these, was[:, None], after[:, None], was, self._table.surplus[was, column]

    def _packed_parts(self, gpus: Ints, column: int, count: int) -> _Choices:
        """Several parts, each on the GPU of the least fragmentation, of those the fullest."""
        now, every = gpus.copy(), np.arange(len(gpus))
        lies, extra = np.ones(len(gpus), np.bool_), np.zeros(len(gpus))
        for _ in range(count):
            self._open(now)
            room, after = self._table.room[now, column] > 0, self._table.after[now, column]
            surplus = self._table.surplus[now, column]
            chosen = self._least(now, after, room, surplus)
            lies &= room[every, chosen]
            there, taken = np.flatnonzero(lies), chosen[lies]
            was = now[there, taken]
            extra[there] += surplus[there, taken]
            now[there, taken] = self._mix.after(was, np.full_like(was, column))
        these = np.flatnonzero(lies)
        self._open(now[these])
        return these, gpus[these], now[these], np.zeros(len(these), np.int64), extra[these]

    def _least(self, now: Ints, after: Ints, room: Flags, surplus: Floats) -> Ints:
        """By host the GPU with the least loss, of those the fullest, of those the first state."""
        mix = self._mix
        loss = mix.waste[after] - mix.waste[now] - mix.worth[after] + mix.worth[now] + surplus
        among = room
        for each in (loss, mix.free[now], now):
            key = np.where(among, each, np.inf)
            among = among & (key == key.min(axis=1, keepdims=True))
        found: Ints = among.argmax(axis=1)
        return found

    def _open(self, rows: Ints) -> None:
        self._table.open_rows(np.unique(rows).tolist())
        self._mix.catch_up()


_REMEMBERED = 192


class FragmentationRater:
    """See ``Rater``. Numbers are double, so that the same host gets the same score on any way."""

    def __init__(
        self, hosts: HostRows, table: StateTable, request_types: RequestTypes, mix: MixRows
    ) -> None:
        self._hosts = hosts
        self._table = table
        self._request_types = request_types
        self._mix = mix
        self._room = HostRoom(hosts, request_types, table)
        self._by_type = TypeRater(hosts, table, request_types, mix, self._room)
        self._deriving: OutcomeTable | None = None
        self._compiled: CompiledRating | None = None
        if CompiledRating.knows(hosts, request_types, mix):
            self._compiled = CompiledRating(hosts, table, request_types, mix)
            self._compiled.set_up(off_node=OFF_NODE, unknown=UNKNOWN)
        self._known: dict[Hashable, Outcomes] = {}

    def rate(self, number: int) -> Scores:
        """The scores of one host, by type."""
        found = self._outcomes(number)
        fits, off_node = self._room.on(number)
        scores, choices = np.full(len(fits), NEVER), self._choices(number, found)
        for first, end in pairwise(found.runs):
            types = found.types[first:end]
            scores[types] = np.maximum(scores[types], choices[first:end])
        scores[scores == NEVER] = UNKNOWN
        return masked(scores - off_node * OFF_NODE, fits)

    def write(self, number: int, scores: Scores, allowed: Flags) -> bool:
        """See ``Rater``."""
        if self._compiled is not None:
            self._compiled.rate(number, scores, allowed)
        return self._compiled is not None

    def rate_many(self, hosts: Ints) -> Scores:
        """Type by type where that can be done and there are fewer of them than hosts."""
        request_types = self._request_types
        scores = np.empty((len(request_types.demands), len(hosts)))
        by_type = request_types.on_many
        if by_type.sum() >= len(hosts):
            by_type = np.zeros_like(by_type)
        if by_type.any():
            scores[by_type] = self._by_type.rate(np.flatnonzero(by_type).tolist(), hosts)
        rest = np.flatnonzero(~by_type)
        if len(rest):
            only = request_types.only(rest.tolist())
            rater = FragmentationRater(self._hosts, self._table, only, self._mix)
            scores[rest] = one_by_one(rater, len(rest), hosts)
        return scores

    def ways(self, number: int, host: int) -> tuple[list[int], list[float]]:
        """States of a host's GPUs that a type of one part may take, and what each would score."""
        if self._compiled is not None:
            return self._compiled.ways(number, host)
        return self._by_type.ways(number, host)

    def _outcomes(self, number: int) -> Outcomes:
        """What the types would make of this host's GPUs."""
        gpus = np.sort(self._hosts.rows[number])
        key = gpus.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            if self._deriving is None:
                self._deriving = OutcomeTable(self._request_types, self._table, self._mix)
            found = self._known[key] = self._deriving.of(gpus)
        return found

    def _choices(self, number: int, found: Outcomes) -> Floats:
        """The score of each choice on a host."""
        hosts, request_types, mix = self._hosts, self._request_types, self._mix
        cpu, memory = hosts.cpu[number], hosts.memory[number]
        left = cpu - request_types.cpu[found.types]
        open_to = mix.open_to(left, memory - request_types.memory[found.types])
        useful = np.einsum("cm,cm->c", open_to, found.useful[found.results])
        # The same kernel as for many hosts, for the same last bit.
        before = np.einsum("m,m->", mix.open_to(cpu, memory), found.useful[0])
        free, idle = found.free[found.results], found.idle[found.results]
        used = found.free[0] - free
        gain = useful - before + found.worth[found.results] + used - found.surplus
        gain = gain + OFF_GPUS * hosts.plain[number]
        return scored(hosts, mix, gain, left, found.rows, (used, free, idle))


class FragmentationPlane(Plane):
    """The best host of a row, by the plan's quotas too; the exact fit has the last word."""

    kind = np.float32
    _rater: FragmentationRater

    def __init__(self, hosts: HostRows, filters: HostFilters, table: StateTable) -> None:
        super().__init__(hosts, filters, table)
        self.expect(MixRows([], table))
        self._quotas: PlanQuotas | None = None
        self._groups: list[int] = []
        self._rank: Ints = np.arange(len(hosts.states))

    def expect(self, mix: MixRows) -> None:
        """Take another mix; scores are of the old mix until ``go_by``."""
        self._mix = mix
        self._keys = Keys(self._loss, _same, places=mix.valued)

    def rater(self, request_types: RequestTypes) -> FragmentationRater:
        """A rater for these types."""
        return FragmentationRater(self.hosts, self.table, request_types, self._mix)

    def go_by(self, quotas: PlanQuotas | None, rank: Ints, worth: Worths | None) -> None:
        """Another plan: its quotas, ``rank`` for ties between its classes, what GPUs are worth."""
        self._quotas, self._rank, self._groups = quotas, rank, []
        self._mix.value(worth)
        self.score_anew()

    def best(self, number: int) -> Fit | None:
        """Where a VM of type ``number`` goes."""
        row = self.scores[number]
        while len(row):
            host = self._top(row, number)
            if row[host] == NEVER:
                break
            fit = self._fit(number, host)
            if fit is not None:
                return fit
            # It looked as if it fitted; nothing to try again there until the host changes.
            row[host] = NEVER
        return None

    def _top(self, row: Scores, number: int) -> int:
        if self._quotas is None:
            return int(row.argmax())
        for demand in self.request_types.demands[len(self._groups) :]:
            self._groups.append(self._quotas.group(group_key(demand)))
        return self._quotas.best(row, self._groups[number], self._rank)

    def _fit(self, number: int, host: int) -> Fit | None:
        demand, state = self.request_types.demands[number], self.hosts.states[host]
        if demand.parts != 1:
            return find_fit(state, demand, self._keys_of(demand))
        rows, scores = self._rater.ways(number, host)
        if not self.hosts.intricate[host]:
            at = self.hosts.rows[host].tolist().index(rows[scores.index(max(scores))])
            keys = self._keys if self._mix.valued else None
            return find_fit(state, demand, keys, only=[state.gpus[at]])
        rank = dict(zip(rows, (-score for score in scores), strict=True))
        row_of = self.table.row_of

        def ranked(gpu: GpuOccupancy, offer: Offer, spot: Spot) -> Key:
            loss = self._loss(gpu, offer, spot) if self._mix.valued else ()
            return rank.get(row_of(gpu), np.inf), *loss

        keys = Keys(ranked, _same, places=self._mix.valued)
        if state.supply.partitions:
            return find_fit(state, demand, keys)
        best = min(rank.values())
        top = [row for row, value in rank.items() if value == best]
        fit = find_fit(state, demand, keys, only=self._different(host, top))
        if fit is not None and not fit.off_node:
            return fit
        return find_fit(state, demand, keys, only=self._different(host, rank))

    def _different(self, host: int, wanted: Container[int]) -> list[GpuOccupancy]:
        """One GPU of each wanted state on each NUMA node: the rest are no better, and no worse, but
        where there are NICs that they are near to, or not.
        """
        found: dict[tuple[int, int | None, str], GpuOccupancy] = {}
        gpus, rows = self.hosts.states[host].gpus, self.hosts.rows[host].tolist()
        for gpu, row in zip(gpus, rows, strict=False):
            if row in wanted:
                place = gpu.supply.path if self.hosts.states[host].nics.nics else ""
                found.setdefault((row, gpu.numa_node, place), gpu)
        return list(found.values())

    def _keys_of(self, demand: Demand) -> Keys:
        """By loss, and what a part by size takes beyond what was asked for."""
        if all(kind.profile for kind in demand.kinds):
            return self._keys

        def costing(gpu: GpuOccupancy, offer: Offer, spot: Spot) -> Key:
            loss, *ties = self._loss(gpu, offer, spot)
            after = self.table.after_spot(gpu, offer, spot)
            taken = self.table.free[self.table.row_of(gpu)] - self.table.free[after]
            return (loss + _surplus(demand, offer) * float(taken), *ties)

        return Keys(costing, _same, places=self._mix.valued)

    def _loss(self, gpu: GpuOccupancy, offer: Offer, spot: Spot) -> Key:
        before, after = self.table.row_of(gpu), self.table.after_spot(gpu, offer, spot)
        self._mix.catch_up()
        return self._mix.loss(before, after)


def _surplus(demand: Demand, offer: Offer) -> float:
    """Of what the offer takes, for the part of the demand that it answers best."""
    by_size = [surplus(offer, kind) for kind in demand.kinds if not kind.profile]
    return min(by_size, default=0.0)


def _same(_host: object) -> Key:
    return ()
