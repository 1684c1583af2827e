"""What a GPU can make, and where."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.gpu import Framework


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A place where the driver would put one: its own number for it, and the slots it takes.

    ``at`` is the first slice of a MIG placement, or a mixed-size placement id.
    """

    at: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceOffer:
    """The MIG GPU instance behind an offer.

    ``size`` in slices of the memory grid, ``gpu_slices`` compute slices. ``media`` marks a profile
    with media extensions: one per GPU. ``per_instance`` is the most vGPUs of the type in one
    instance (1 unless the board time-slices inside an instance).
    """

    profile: str
    profile_id: int
    size: int
    gpu_slices: int
    media: bool = False
    per_instance: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A profile that a GPU can make.

    ``units`` is the number of memory slots one instance takes, ``max_instances`` the most of this
    profile on one GPU, ``size_class`` what must be equal among vGPUs of a same-size GPU (0 where
    sizes mix freely). ``max_per_vm`` is the most of it in one VM. ``mmio64_mib`` is the PCI window
    the guest needs. ``verified`` False marks a number no primary source confirms.

    ``names`` are other names for the same thing (``A100D-1-10C`` for ``1g.10gb``). ``starts`` are
    the only places it may lie; empty: any free slots will do. ``needs_vf``: each takes a virtual
    function. ``instance`` is set for a MIG-backed offer; its ``starts`` are the instance's, and
    ``units`` what one vGPU takes of the instance's slots. vGPUs of one VM must be of one board
    model and ``series``.
    """

    profile: str
    framework: Framework
    type_id: str
    units: int
    max_instances: int
    memory_mib: int
    size_class: int = 0
    max_per_vm: int = 16
    mmio64_mib: int = 0
    verified: bool = True
    names: tuple[str, ...] = ()
    series: str = ""
    starts: tuple[Start, ...] = ()
    needs_vf: bool = False
    instance: InstanceOffer | None = None
