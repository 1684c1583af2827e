"""Placement's answer: a yes with its parts, or a no with its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.model.placement.offers import Offer
from vgpumgr.model.placement.supply import FreeVf
from vgpumgr.model.vm import VmSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one GPU (or one host, ``gpu`` empty) refused: the first rule that failed.

    ``code`` is stable (``same-size``, ``memory``, …); ``facts`` are its numbers; ``text`` is the
    sentence a user reads, numbers included.
    """

    code: str
    host: str
    text: str
    gpu: str = ""
    device: str = ""
    model: str = ""
    facts: Mapping[str, int | str] = field(default_factory=dict)


FITS = "fits"
"""The ``code`` of what is said about a GPU or host where the request fits."""

# Codes of reasons that say least: the GPU or host was never meant, or could never do it.
FAR_REASONS = frozenset({"profile", "model", "affinity-hosts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One GPU part for one VM: which GPU, which offer, which slots of it.

    ``start`` is the ``at`` of the place chosen (MIG: of the instance), ``vf`` the function taken;
    ``make_instance`` False: the GPU instance at ``start`` exists already.
    """

    gpu: str
    device: str
    offer: Offer
    slots: tuple[int, ...]
    start: int | None = None
    vf: FreeVf | None = None
    make_instance: bool = False
    frame_rate_limiter: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A yes: the host, the parts, and where CPUs and memory go.

    ``partition`` is the NVSwitch partition that the whole GPUs make up, where the host has them.
    """

    request: VmSpec
    host: str
    assignments: tuple[Assignment, ...]
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlaced:
    """A no, with one reason per GPU (or per host that failed before its GPUs were looked at)."""

    request: VmSpec
    reasons: tuple[Reason, ...]


Decision = Placed | NotPlaced
