"""The CP-SAT program of a batch problem: GPU shares, whole GPUs, partitions, filling patterns.

Needs ortools, which HiGHS cannot share a process with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from vgpumgr.placement.batch.batch_problem import (
    BatchAnswer,
    BatchProblem,
    Bin,
    FilledGpus,
    Filling,
    Seat,
    SharedGpus,
)

Made = Iterator[tuple[int, Any]]
"""(column, how many of the part)."""


class Share:
    """GPUs of so many free units: each holds shares, or is a part as a whole, or neither.

    ``whole`` are columns of parts that are surely whole GPUs here.
    """

    def __init__(self, model: Any, shared: SharedGpus, wanted: set[int]) -> None:
        self.gpus = shared.gpus
        gpus = range(len(shared.gpus))
        cut = [model.new_bool_var("") for _ in gpus]
        for first, second in pairwise(cut):  # equal GPUs: the first ones are cut up
            model.add_implication(second, first)
        sizes = [(column, size) for column, size in shared.sizes if column in wanted]
        self._parts = {
            (gpu, column): model.new_int_var(0, shared.units // size, "")
            for gpu in gpus
            for column, size in sizes
        }
        for gpu in gpus:
            used = sum(size * self._parts[gpu, column] for column, size in sizes)
            model.add(used <= shared.units * cut[gpu])
        self._whole = {
            column: model.new_int_var(0, len(gpus), "")
            for column in shared.whole
            if column in wanted
        }
        self.whole = set(self._whole) - {column for column, _ in sizes}
        model.add(sum(cut) + sum(self._whole.values()) <= len(gpus))

    def made(self) -> Made:
        """What the GPUs make in all."""
        for (_, column), part in self._parts.items():
            yield column, part
        yield from self._whole.items()

    def seats(self, solver: Any) -> Iterator[Seat]:
        """Every part that is made, GPU by GPU."""
        gpus = self.gpus
        free = set(gpus)
        for (gpu, column), part in self._parts.items():
            for _ in range(solver.value(part)):
                free.discard(gpus[gpu])
                yield gpus[gpu], column
        rest = sorted(free)
        for column, whole in self._whole.items():
            for _ in range(solver.value(whole)):
                yield rest.pop(0), column


class Fill:
    """GPUs in one state: how many of them are filled in which way."""

    def __init__(self, model: Any, filled: FilledGpus) -> None:
        self.gpus, self.whole = filled.gpus, set(filled.whole)
        self._fillings = filled.fillings
        self._ways = [model.new_int_var(0, len(filled.gpus), "") for _ in filled.fillings]
        model.add(sum(self._ways) <= len(filled.gpus))

    def made(self) -> Made:
        """What the GPUs make in all."""
        for filling, way in zip(self._fillings, self._ways, strict=True):
            for column in dict.fromkeys(filling):
                yield column, filling.count(column) * way

    def seats(self, solver: Any) -> Iterator[Seat]:
        """Every part that is made, in the order in which a GPU is to be filled."""
        gpus = list(self.gpus)
        for filling, way in zip(self._fillings, self._ways, strict=True):
            for _ in range(solver.value(way)):
                yield from _on(gpus.pop(0), filling)


def choose_partitions(
    model: Any, partitions: Sequence[tuple[int, ...]], whole: dict[int, Any], held: dict[int, Any]
) -> None:
    """GPUs go whole as the partitions of an NVSwitch say, each to one VM.

    ``whole[gpu]`` is 1 for a GPU that does, ``held[n]`` the number of VMs of n whole GPUs each.
    """
    chosen = {partition: model.new_bool_var("") for partition in partitions}
    for gpu, taken in whole.items():
        model.add(taken == sum(each for partition, each in chosen.items() if gpu in partition))
    for partition, each in chosen.items():
        if not whole.keys() >= set(partition):
            model.add(each == 0)
    for size, vms in held.items():
        model.add(vms <= sum(each for found, each in chosen.items() if len(found) == size))


def _on(gpu: int, filling: Filling) -> Iterator[Seat]:
    return ((gpu, column) for column in filling)


Terms = list[Any]


def solver_is_there() -> bool:
    """Whether ortools can be imported."""
    return find_spec("ortools") is not None


def solve(problem: BatchProblem) -> BatchAnswer:
    """The best that is found with the effort allowed; the same for the same problem.

    One thread, and an effort that is counted: two machines differ only where ``seconds`` end it.
    """
    cp_model: Any = import_module("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    program = _Program(model, problem)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers, parameters.random_seed = 1, 0
    # Capacities are what it is about: 2 to 200 times less effort than at the level of the default.
    parameters.linearization_level = 2
    parameters.max_deterministic_time = problem.effort
    parameters.max_time_in_seconds = problem.seconds
    status = solver.solve(model)
    effort = solver.response_proto.deterministic_time
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return BatchAnswer((), (), effort)
    return program.answer(solver, effort)


class _Program:
    def __init__(self, model: Any, problem: BatchProblem) -> None:
        self._problem = problem
        self._bins = [_BinProgram(model, problem, each) for each in problem.bins]
        taken: defaultdict[int, Terms] = defaultdict(list)
        for each in self._bins:
            for group, held in each.held.items():
                taken[group].append(held)
        placed: Terms = []
        milli: Terms = []
        for number, terms in taken.items():
            of = problem.groups[number]
            model.add(sum(terms) <= of.count)
            placed += terms
            milli += [of.milli * term for term in terms]
        model.add(sum(milli) >= problem.milli)
        model.add(sum(placed) > problem.above)
        model.maximize(sum(placed))

    def answer(self, solver: Any, effort: float) -> BatchAnswer:
        return BatchAnswer(
            effort=effort,
            held=tuple(each.taken(solver) for each in self._bins),
            seats=tuple(tuple(each.seats(solver)) for each in self._bins),
        )


class _BinProgram:
    """One host: ``held`` VMs by group, and the parts that its GPUs make."""

    def __init__(self, model: Any, problem: BatchProblem, host: Bin) -> None:
        groups = problem.groups
        self.held = {n: model.new_int_var(0, groups[n].count, "") for n in host.takes}
        wanted: defaultdict[int, Terms] = defaultdict(list)
        for number, held in self.held.items():
            for column, count in groups[number].needs:
                wanted[column].append(count * held)
        self._makers: list[Share | Fill] = [
            *(Share(model, each, set(wanted)) for each in host.shared),
            *(Fill(model, each) for each in host.filled),
        ]
        made: defaultdict[int, Terms] = defaultdict(list)
        for maker in self._makers:
            for column, parts in maker.made():
                made[column].append(parts)
        for column, terms in wanted.items():
            model.add(sum(terms) <= sum(made[column]))
        model.add(sum(groups[n].vcpus * held for n, held in self.held.items()) <= host.vcpus)
        memory = (groups[n].memory_mib * held for n, held in self.held.items())
        model.add(sum(memory) <= host.memory_mib)
        if host.partitions:
            self._partition(model, problem, host.partitions)

    def _partition(
        self, model: Any, problem: BatchProblem, partitions: tuple[tuple[int, ...], ...]
    ) -> None:
        """Of GPUs that an NVSwitch connects, each is a maker by itself."""
        whole = {
            maker.gpus[0]: sum(made for column, made in maker.made() if column in maker.whole)
            for maker in self._makers
        }
        columns = {column for maker in self._makers for column in maker.whole}
        held: defaultdict[int, Any] = defaultdict(int)
        for number, vms in self.held.items():
            needs = problem.groups[number].needs
            held[sum(count for column, count in needs if column in columns)] += vms
        held.pop(0, None)
        choose_partitions(model, partitions, whole, held)

    def taken(self, solver: Any) -> tuple[tuple[int, int], ...]:
        """(group, how many) of those that are here."""
        found = ((number, solver.value(held)) for number, held in self.held.items())
        return tuple((number, count) for number, count in found if count)

    def seats(self, solver: Any) -> Iterator[Seat]:
        """Every part that is made."""
        for maker in self._makers:
            yield from maker.seats(solver)
