"""The output of ``nvidia-smi mig -lgi`` on a host that was partitioned by hand, as a layout."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout, InstanceGoal, LayoutRule, LayoutSpec
from vgpumgr.spec.foreign.conversion import ImportedLayouts
from vgpumgr.spec.foreign.gpu_filters import in_order

NAME = "nvidia-smi"

_HEAD = "GPU instances:"
# GPU, name, profile id, instance id, start:size; the driver draws the frame.
_ROW = re.compile(r"\|\s+(\d+)\s+MIG (\S+)\s+\d+\s+\d+\s+(\d+):\d+\s+\|")
_MOST_CHARACTERS = 1_000_000


def is_listing(data: bytes | str) -> bool:
    """Is it that table, and no layout file?"""
    return _HEAD in _text(data)[:_MOST_CHARACTERS]


def read(data: bytes | str, gpus: Sequence[GpuFacts] = ()) -> ImportedLayouts:
    """A rule for each GPU that the table shows, its instances where they lie.

    The table counts GPUs: ``gpus`` are those of its host. MIG mode is all it tells besides.
    """
    found: dict[int, list[InstanceGoal]] = {}
    for number, profile, start in _ROW.findall(_text(data)[:_MOST_CHARACTERS]):
        goal = InstanceGoal(profile=profile, start=int(start))
        found.setdefault(int(number), []).append(goal)
    here = in_order(gpus)
    rules = [
        LayoutRule(
            layout=GpuLayout(mig=True, instances=tuple(instances)), devices=(here[number].device,)
        )
        for number, instances in sorted(found.items())
        if number < len(here)
    ]
    left_out = [
        f"GPU {number}: {_why_not(here)}" for number in sorted(found) if number >= len(here)
    ]
    layout = LayoutSpec(name=NAME, rules=tuple(rules)) if rules else None
    if not found:
        left_out.append("the table lists no GPU instance")
    return ImportedLayouts(layout=layout, left_out=tuple(left_out))


def _why_not(here: Sequence[GpuFacts]) -> str:
    if here:
        return f"the host has {len(here)} NVIDIA GPUs"
    return "the table counts the GPUs of one host: name it with --host"


def _text(data: bytes | str) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data
