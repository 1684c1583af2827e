"""Hosts as they would be after one change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.placement import HostSupply
from vgpumgr.model.vm import VmSpec


class Kind(StrEnum):
    """What is changed, the cheapest first: what costs its owner least, then whom it troubles."""

    FRAMEWORK = "framework"
    MODEL = "model"
    NUMA = "numa"
    PINNING = "pinning"
    HUGEPAGES = "hugepages"
    UNCORDON = "uncordon"
    AFFINITY = "affinity"
    PROFILE = "profile"
    LAYOUT = "layout"
    MOVE = "move"
    COUNT = "count"
    SMALLER = "smaller-gpu-part"
    VCPUS = "vcpus"
    MEMORY = "memory"
    STOP = "stop"
    HOST = "host"


RANK = {kind: number for number, kind in enumerate(Kind)}
WISHES = frozenset(
    {Kind.FRAMEWORK, Kind.MODEL, Kind.NUMA, Kind.PINNING, Kind.HUGEPAGES, Kind.AFFINITY}
)
"""What a request would rather have than need: without it the VM gets all that it asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """``host`` as it would be: in place of the one of that name, or one more, without a name.

    ``text`` says what is changed, ``next()`` what to type or write for it. ``stopped`` is the VM
    that no longer holds anything there, where that is the change.
    """

    kind: Kind
    text: str
    host: HostSupply
    next: Callable[[], str] = str
    stopped: VmSpec | None = None
