"""GPU facts as the ledger's text: one text for all boards of a class in slots of a class.

What one GPU alone has, its UUID and serial, is in columns of its own. Lists that many virtual
functions share are written once: a host of eight GPUs with 32 VFs each, every VF with the same two
dozen mdev types, would be 1.1 MB of text, and is 0.1 MB.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

from vgpumgr.model.codec import as_object, dump, from_plain
from vgpumgr.model.gpu import GpuFacts, GpuHealth, MdevType
from vgpumgr.model.layout import Scheduler
from vgpumgr.store.ledger.row_memo import MOST_TEXTS
from vgpumgr.store.schema.columns import UNREADABLE

Types = tuple[MdevType, ...]

# A number below 0 or of 17 digits; in a text it may be something else.
_MAYBE_ODD = re.compile(r"[:\[,] ?(?:-\d|\d{17})")
# Beside the fields of GpuFacts: the distinct type lists of its VFs, and which of them each VF has.
_LISTS, _WHICH = "vf_mdev_types", "vf_mdev_types_of"
# What schema 2 called them: the first name is a field of the facts now.
_OLD_LISTS, _OLD_WHICH = "vf_types", "vf_types_of"
_IDENTITY = ("device", "path", "model", "vendor_device", "uuid", "serial")


def dump_gpu(facts: GpuFacts) -> str:
    """A GPU's facts as text, without its UUID and serial."""
    values = as_object(facts)
    del values["uuid"], values["serial"]
    if any(vf.mdev_types for vf in facts.vfs):
        lists = tuple(dict.fromkeys(vf.mdev_types for vf in facts.vfs))
        number = {types: index for index, types in enumerate(lists)}
        values["vfs"] = [replace(vf, mdev_types=()) for vf in facts.vfs]
        values[_LISTS] = lists
        values[_WHICH] = [number[vf.mdev_types] for vf in facts.vfs]
    return dump(values)


def load_gpu(text: str, uuid: str | None = None, serial: str | None = None) -> GpuFacts:
    """The facts that :func:`dump_gpu` wrote, of the GPU with this evidence; keys that are missing
    take defaults. All of one text share what the text says.

    Of facts out of range, as older versions kept them, what the GPU is remains: a look
    at its host puts them right.
    """
    return GpuFacts(**{**_values(text), "uuid": uuid, "serial": serial})


def is_text_of(text: str, facts: GpuFacts) -> bool:
    """Does a stored text say what :func:`dump_gpu` would write of the facts? One that cannot be
    read does not.
    """
    try:
        values = _values(text)
    except UNREADABLE:
        return False
    return values == {**as_object(facts), "uuid": None, "serial": None}


@lru_cache(maxsize=MOST_TEXTS)
def _values(text: str) -> dict[str, Any]:
    """The values of GpuFacts by field."""
    data = json.loads(text)
    facts = _loaded(data)
    known = facts.scheduler is None or facts.scheduler in list(Scheduler)
    if not (known and in_range(text, data)):
        why = "what was kept of it is out of range, look at its host again"
        identity = {name: getattr(facts, name) for name in _IDENTITY}
        facts = GpuFacts(**identity, health=GpuHealth.UNKNOWN, health_detail=why)
    return as_object(facts)


def in_range(text: str, data: object) -> bool:
    """Are all numbers of stored facts such as a probe may give? ``data`` is what ``text`` says."""
    return _MAYBE_ODD.search(text) is None or _all_in_range(data)


def _all_in_range(data: object) -> bool:
    if isinstance(data, dict):
        return all(map(_all_in_range, data.values()))
    if isinstance(data, list):
        return all(map(_all_in_range, data))
    return not isinstance(data, int) or 0 <= data < 2**53


def _loaded(data: dict[str, Any]) -> GpuFacts:
    if _OLD_WHICH in data:
        data |= {_LISTS: data.pop(_OLD_LISTS), _WHICH: data.pop(_OLD_WHICH)}
    facts = from_plain(GpuFacts, data)
    if _LISTS not in data:
        return facts
    lists = from_plain(tuple[Types, ...], data[_LISTS])
    vfs = zip(facts.vfs, data[_WHICH], strict=True)
    return replace(facts, vfs=tuple(replace(vf, mdev_types=lists[index]) for vf, index in vfs))
