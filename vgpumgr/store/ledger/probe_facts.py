"""Facts of a probe as stored text: lists that many virtual functions share are written once.

A host of eight GPUs with 32 VFs each, every VF with the same two dozen mdev types,
would be 1.1 MB of text, most of it equal; stored like this it is 0.1 MB.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, cast

from vgpumgr.model.codec import as_object, decoder, dump
from vgpumgr.model.gpu import GpuFacts, GpuHealth, MdevType
from vgpumgr.model.host import HostFacts
from vgpumgr.model.layout import Scheduler

Types = tuple[MdevType, ...]

# A number below 0 or of 17 digits; in a text it may be something else.
_MAYBE_ODD = re.compile(r"[:\[,] ?(?:-\d|\d{17})")
# Beside the fields of GpuFacts: the distinct type lists of its VFs, and which of them each VF has.
_LISTS, _WHICH = "vf_mdev_types", "vf_mdev_types_of"
# What schema 2 called them: the first name is a field of the facts now.
_OLD_LISTS, _OLD_WHICH = "vf_types", "vf_types_of"


def without_detail(facts: HostFacts) -> HostFacts:
    """A host's facts for its own row: which GPUs it has. What they show is in their rows."""
    return replace(facts, gpus=tuple(_identity(each) for each in facts.gpus))


def _identity(gpu: GpuFacts) -> GpuFacts:
    return GpuFacts(
        device=gpu.device,
        path=gpu.path,
        model=gpu.model,
        vendor_device=gpu.vendor_device,
        uuid=gpu.uuid,
        serial=gpu.serial,
    )


def dump_gpu(facts: GpuFacts) -> str:
    """A GPU's facts as text; a list of types that many VFs share is written once."""
    if not any(vf.mdev_types for vf in facts.vfs):
        return dump(facts)
    lists = tuple(dict.fromkeys(vf.mdev_types for vf in facts.vfs))
    number = {types: index for index, types in enumerate(lists)}
    return dump(
        {
            **as_object(facts),
            "vfs": [replace(vf, mdev_types=()) for vf in facts.vfs],
            _LISTS: lists,
            _WHICH: [number[vf.mdev_types] for vf in facts.vfs],
        }
    )


def load_gpu(text: str) -> GpuFacts:
    """The facts that :func:`dump_gpu` wrote; keys that are missing take defaults.

    Of facts out of range, as older versions kept them, what the GPU is remains: a look
    at its host puts them right.
    """
    data = json.loads(text)
    facts = _loaded(data)
    known = facts.scheduler is None or facts.scheduler in list(Scheduler)
    if known and in_range(text, data):
        return facts
    why = "what was kept of it is out of range, look at its host again"
    return replace(_identity(facts), health=GpuHealth.UNKNOWN, health_detail=why)


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
    facts = cast("GpuFacts", _decode(GpuFacts, data))
    if _LISTS not in data:
        return facts
    lists: tuple[Types, ...] = _decode(tuple[Types, ...], data[_LISTS])
    vfs = zip(facts.vfs, data[_WHICH], strict=True)
    return replace(facts, vfs=tuple(replace(vf, mdev_types=lists[index]) for vf, index in vfs))


def _decode(kind: Any, data: Any) -> Any:
    decode = decoder(kind)
    return decode(data) if decode else data
