"""What a driver says of a board, held against the row that its PCI id chose.

Names differ from driver to driver and memory by what is reserved, so only what no driver would say
of that board speaks against it.
"""

from __future__ import annotations

import re
from functools import cache

from vgpumgr.catalog.boards import MIB_PER_GIB, board, boards
from vgpumgr.catalog.values import Board
from vgpumgr.model.gpu import GpuFacts

_WORD = re.compile(r"[A-Z0-9]+")
# T4, V100S, GB200, RTX 6000; not 80GB, SXM5, HBM3.
_MODEL = re.compile(r"(?!SXM|HBM)[A-Z]{1,3}\d{1,4}[A-Z]?|\d{4}")
# Of a board's nominal memory ECC takes a sixteenth, and the driver some per cent more. Sizes of one
# model differ by a third or more. Wide on purpose: a false alarm is worse than a lie unseen.
_LEAST, _MOST = 0.75, 1.25


def contradiction(gpu: GpuFacts) -> str:
    """What of the name and memory that NVML tells cannot be this board's; empty: nothing.

    A name that mentions no model of the catalogue says nothing, and neither does no memory.
    """
    found = board(gpu.model)
    if found is None:
        return ""
    if _names_another(found, gpu.name):
        return f"its driver calls it {gpu.name}, its PCI id is that of {found.name}"
    nominal = found.memory_gib * MIB_PER_GIB
    if gpu.memory_mib and not _LEAST * nominal <= gpu.memory_mib <= _MOST * nominal:
        shown = f"its driver shows {gpu.memory_mib} MiB of memory"
        return f"{shown}, its PCI id is that of {found.name} with {found.memory_gib} GiB"
    return ""


def _names_another(found: Board, name: str) -> bool:
    told = _models(name) & _known()
    return bool(told) and not any(_kin(one, own) for one in told for own in _models(found.name))


def _kin(one: str, other: str) -> bool:
    """The same model, or a variant of it: V100 and V100S."""
    return one.startswith(other) or other.startswith(one)


def _models(name: str) -> set[str]:
    return {word for word in _WORD.findall(name.upper()) if _MODEL.fullmatch(word)}


@cache
def _known() -> frozenset[str]:
    return frozenset(word for each in boards() for word in _models(each.name))
