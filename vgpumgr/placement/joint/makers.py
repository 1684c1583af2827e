"""What the GPUs of a host make, as terms of the program: shares, whole ones, ways to be filled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from vgpumgr.placement.joint.problem import Filled, Filling, Seat, Shared

Made = Iterator[tuple[int, Any]]
"""(column, how many of the part)."""


class Share:
    """GPUs of so many free units: each holds shares, or is a part as a whole, or neither.

    ``whole`` are columns of parts that are surely whole GPUs here.
    """

    def __init__(self, model: Any, shared: Shared, wanted: set[int]) -> None:
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

    def __init__(self, model: Any, filled: Filled) -> None:
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
