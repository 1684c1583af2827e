"""The compiled way to rate hosts (``host_rating.c``), where it was built; NumPy's is the reference.

Both give the same numbers to the last bit. ``VGPUMGR_COMPILED=off`` in the environment leaves it
alone. What it does not know is left to NumPy: huge pages, pinned CPUs, GPUs weighed by values.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.scores.fragmentation import (
    BEST_FIT,
    CROWDED,
    CUT_LAST,
    OFF_GPUS,
    SAME,
    MixRows,
)
from vgpumgr.placement.tables.gpu_states import MILLI, StateTable
from vgpumgr.placement.tables.host_table import HostRows
from vgpumgr.placement.tables.request_types import Flags, RequestTypes

SOURCE = Path(__file__).with_name("host_rating.c")
BUILT = SOURCE.with_suffix(".so")
MOST_GPUS = 64

_INT, _FLOAT, _AT = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_LAYOUT: tuple[tuple[Any, str], ...] = (
    (_INT, "hosts width nodes most_cpu"),
    (_AT, "cpu memory rows node_memory node_of plain"),
    (_INT, "columns parts"),
    (_AT, "room after surplus keys ranks opened"),
    (_INT, "entries seen"),
    (_AT, "mix_room useful need weight mix_cpu mix_memory free idle useless worth size"),
    (_INT, "spreading most_memory types bundles"),
    (_AT, "type_cpu type_memory bundle parts_from part_column part_count part_need"),
    (_AT, "require prefer needs_nodes vague"),
    (_INT, "sizes"),
    (_AT, "size_ranks"),
    (_FLOAT, "off_node unknown off_gpus best_fit cut_last crowded milli same size_field"),
    (_FLOAT, "vague_head"),
    (_AT, "work"),
)


class _Rating(ctypes.Structure):
    """``Rating`` of host_rating.c."""

    _fields_ = [(name, kind) for kind, names in _LAYOUT for name in names.split()]


def _loaded() -> ctypes.CDLL | None:
    """None too where it was built for another machine, or of another source."""
    if os.environ.get("VGPUMGR_COMPILED") == "off" or not BUILT.is_file():
        return None
    try:
        library = ctypes.CDLL(str(BUILT))
        for name, arguments in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = _INT, arguments
        source: int = library.source()
        return library if source == crc32(SOURCE.read_bytes()) else None
    except (OSError, AttributeError):
        return None


_FUNCTIONS: dict[str, list[Any]] = {
    "source": [],
    "rate_host": [_AT, _INT, _AT, _AT],
    "head_of_host": [_AT, _INT, _AT, _AT],
    "ways_on_host": [_AT, _INT, _INT, _AT, _AT, _AT],
    "best_of_classes": [_AT, _INT, _AT, _INT, _AT, _INT, _AT, _AT],
    "best_of_keys": [_AT, _INT, _INT, _AT, _AT, _AT],
}

_library = _loaded()


def library() -> Any:
    """The functions of host_rating.c; None where they were not built, or are switched off."""
    return _library


def use(wanted: bool) -> bool:
    """Switch the compiled way off, or on again where it was built; whether it is on now."""
    global _library  # noqa: PLW0603
    _library = _loaded() if wanted else None
    return _library is not None


def address(array: NDArray[Any]) -> int:
    """The address of an array's first element."""
    at: int = array.ctypes.data
    return at


class CompiledRating:
    """Rates hosts for the types of one rater; arrays that have grown are found again each time."""

    def __init__(
        self,
        hosts: HostRows,
        table: StateTable,
        request_types: RequestTypes,
        mix: MixRows | None = None,
    ) -> None:
        self._functions = library()
        self._hosts, self._table, self._mix = hosts, table, mix
        self._types = request_types
        self._struct = _Rating()
        self._at = ctypes.addressof(self._struct)
        self._kept: dict[str, NDArray[Any]] = {}
        self._seen: tuple[object, ...] = ()
        self._rows, self._found = np.zeros(MOST_GPUS, np.int64), np.zeros(MOST_GPUS)
        self._written: tuple[object, object] = None, None
        self._keys: Callable[[], NDArray[np.float64]] | None = None
        self._into = 0, 0
        self._count = ctypes.c_int64()
        self._places = address(self._rows), address(self._found), ctypes.addressof(self._count)
        self._tabulate(request_types)
        self._set(milli=MILLI, best_fit=BEST_FIT * 1000.0, cut_last=CUT_LAST, crowded=CROWDED)
        self._set(off_gpus=OFF_GPUS, same=SAME)

    @staticmethod
    def knows(hosts: HostRows, request_types: RequestTypes, mix: MixRows | None = None) -> bool:
        """Whether it is there and can rate these types."""
        simple = not request_types.paged and not request_types.any_pinned
        plain = mix is None or not mix.valued
        return library() is not None and simple and plain and hosts.width <= MOST_GPUS

    def set_up(self, arrays: Sequence[tuple[str, NDArray[Any]]] = (), **numbers: float) -> None:
        """Fields that depend on the policy."""
        self._point(arrays)
        self._set(**numbers)

    def rate(self, host: int, scores: NDArray[np.float32], allowed: Flags) -> None:
        """Write the host's column of the scores by least fragmentation."""
        self._run(self._functions.rate_host, host, *self._columns(scores, allowed))

    def heads(
        self,
        host: int,
        keys: Callable[[], NDArray[np.float64]],
        scores: NDArray[np.float64],
        allowed: Flags,
    ) -> None:
        """Write the host's column of scores by ``keys``, the table's for the policy: another array
        where rows were opened meanwhile.
        """
        self._keys = keys
        self._run(self._functions.head_of_host, host, *self._columns(scores, allowed))

    def ways(self, number: int, host: int) -> tuple[list[int], list[float]]:
        """See ``TypeRater.ways``."""
        self._run(self._functions.ways_on_host, host, number, *self._places)
        count = self._count.value
        return self._rows[:count].tolist(), self._found[:count].tolist()

    def _columns(self, scores: NDArray[Any], allowed: Flags) -> tuple[int, int]:
        if self._written[0] is not scores or self._written[1] is not allowed:
            self._written = scores, allowed
            self._into = address(scores), address(allowed)
        return self._into

    def _run(self, function: Any, *words: int) -> None:
        """Until no row of the table is missing."""
        while True:
            self._refresh()
            missing = function(self._at, *words)
            if missing < 0:
                return
            self._table.open_rows([missing])
            if self._mix is not None:
                self._mix.catch_up()

    def _refresh(self) -> None:
        if self._keys is not None and self._kept.get("keys") is not (keys := self._keys()):
            self._point([("keys", keys)])
        table, mix, hosts = self._table, self._mix, self._hosts
        entries = (mix.room, mix.seen) if mix is not None else (table, 0)
        seen = id(table.room), id(hosts.rows), len(table.parts), id(entries[0]), entries[1]
        if seen == self._seen:
            return
        self._seen = seen
        self._find(table, hosts)
        if mix is not None:
            self._find_mix(mix)

    def _find(self, table: StateTable, hosts: HostRows) -> None:
        self._point(
            (name, getattr(hosts, name))
            for name in ("cpu", "memory", "rows", "node_memory", "node_of", "plain")
        )
        self._set(hosts=len(hosts.states), width=hosts.width, most_cpu=hosts.most_cpu)
        self._set(nodes=hosts.node_memory.shape[1])
        self._point((name, getattr(table, name)) for name in ("room", "after", "surplus", "ranks"))
        self._point([("opened", table.opened)])
        parts, entries = len(table.parts), len(self._mix.need) if self._mix is not None else 0
        self._set(columns=table.room.shape[1], parts=parts)
        bundles, types = self._struct.bundles, self._struct.types
        size = (
            parts + 5 * entries + 1 + bundles * (entries + 6) + (bundles + types) // 8 + 2 + types
        )
        self._point([("work", np.zeros(size))])

    def _find_mix(self, mix: MixRows) -> None:
        self._point(
            (name, getattr(mix, name))
            for name in ("useful", "need", "weight", "free", "idle", "worth", "size")
        )
        self._point(
            [
                ("useless", mix.waste),
                ("mix_room", mix.room),
                ("mix_cpu", mix.cpu),
                ("mix_memory", mix.memory),
            ]
        )
        self._set(entries=len(mix.need), seen=mix.seen, spreading=mix.spreading)
        self._set(most_memory=int(mix.memory.max(initial=0)))

    def _tabulate(self, types: RequestTypes) -> None:
        bundles = dict.fromkeys(types.bundles_with_needs)
        number = {bundle: n for n, bundle in enumerate(bundles)}
        of_type = [number[bundle] for bundle in types.bundles_with_needs]
        every = [part for bundle in bundles for part in bundle]
        columns = np.array(every, np.int64).reshape(-1, 3).T
        self._point([("bundle", np.array(of_type, np.int64))])
        ends = np.cumsum([0, *map(len, bundles)])
        self._point([("parts_from", ends.astype(np.int64))])
        named = zip(("part_column", "part_count", "part_need"), columns, strict=True)
        self._point((name, np.ascontiguousarray(column)) for name, column in named)
        self._point([("type_cpu", types.cpu), ("type_memory", types.memory)])
        self._point((n, getattr(types, n)) for n in ("require", "prefer", "needs_nodes"))
        self._set(types=len(types.demands), bundles=len(bundles))

    def _point(self, arrays: Iterable[tuple[str, NDArray[Any]]]) -> None:
        for name, array in arrays:
            self._kept[name] = array
            setattr(self._struct, name, address(array))

    def _set(self, **numbers: float) -> None:
        for name, number in numbers.items():
            setattr(self._struct, name, number)
