"""MIG as a host shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass

# ``-10C``, ``-5CME``: the first letter after the size is the series.
_SERIES = re.compile(r"-\d+([A-Z])[A-Z]*\d*$", re.ASCII)
# Instances with graphics carry vGPUs for displays.
_GRAPHICS = "+gfx"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeInstance:
    """A compute instance; ``profile_id`` as ``nvidia-smi mig -lcip`` prints it."""

    id: int
    profile_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInstance:
    """A MIG GPU instance. ``start`` and ``size`` are slices of the board's memory grid."""

    id: int
    profile: str
    profile_id: int
    start: int
    size: int
    compute: tuple[ComputeInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """A GPU-instance profile as the driver lists it: ``starts`` are its possible placements.

    ``remaining`` is how many more the driver says it would make; None = it did not say.
    """

    name: str
    profile_id: int
    gpu_slices: int
    size: int
    starts: tuple[int, ...]
    remaining: int | None = None

    @property
    def graphics(self) -> bool:
        """Are its instances for graphics?"""
        return _GRAPHICS in self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MigType:
    """A vGPU type that lies in GPU instances of one profile, as the driver tells it.

    ``type_id`` is the driver's number of it, ``profile`` its name without GRID or NVIDIA;
    ``profile_id`` is the GPU-instance profile's. At most ``per_instance`` of it lie in one
    instance, and at most ``per_vm`` are of one VM.
    """

    type_id: str
    profile: str
    profile_id: int
    memory_mib: int
    per_instance: int = 1
    per_vm: int = 1

    @property
    def series(self) -> str:
        """``C`` of ``H100-1-10CME``; empty for a name without."""
        found = _SERIES.search(self.profile)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigFacts:
    """MIG of a capable GPU. ``pending`` differs from ``enabled`` while a reset is due.

    ``instances`` None: they could not be read, so nothing may be concluded from their absence.
    ``types`` are the MIG-backed vGPU types of a board that the catalogue does not hold; None
    where the catalogue has them, or the driver does not tell in which profile each lies.
    """

    enabled: bool
    pending: bool
    profiles: tuple[MigProfile, ...] = ()
    instances: tuple[GpuInstance, ...] | None = ()
    types: tuple[MigType, ...] | None = None

    def alone_in(self, profile: MigProfile) -> MigType | None:
        """Of ``types`` the one that the profile's name means: it has the GPU instance to itself.

        The C type, the Q type where instances are for graphics, as on the catalogue's boards.
        """
        series = "Q" if profile.graphics else "C"
        inside = [each for each in self.types or () if each.profile_id == profile.profile_id]
        alone = (each for each in inside if each.per_instance == 1 and each.series == series)
        return next(alone, None)
