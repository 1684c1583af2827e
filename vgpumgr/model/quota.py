"""What a tenant may hold, and what it holds. Plain values; memory in MiB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """What VMs hold of what quotas limit.

    ``gpus`` are GPU parts, a vGPU and a whole GPU alike; ``gpu_memory_mib`` what those parts have;
    ``profiles`` how many parts of each profile.
    """

    gpu_memory_mib: int = 0
    gpus: int = 0
    vcpus: int = 0
    vms: int = 0
    profiles: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Amount) -> Amount:
        return self._with(other, 1)

    def __sub__(self, other: Amount) -> Amount:
        return self._with(other, -1)

    def _with(self, other: Amount, sign: int) -> Amount:
        names = {**self.profiles, **other.profiles}
        profiles = {
            name: self.profiles.get(name, 0) + sign * other.profiles.get(name, 0) for name in names
        }
        return Amount(
            gpu_memory_mib=self.gpu_memory_mib + sign * other.gpu_memory_mib,
            gpus=self.gpus + sign * other.gpus,
            vcpus=self.vcpus + sign * other.vcpus,
            vms=self.vms + sign * other.vms,
            profiles={name: count for name, count in profiles.items() if count},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The most a tenant may hold; None is no limit, as is a profile that is not named.

    ``reserved`` is how many parts of a profile are kept for the tenant: until it claims them only
    spot VMs of others may use them. ``weight`` is its share where tenants of equal priority
    compete: 2 gets twice as much as 1.
    """

    tenant: str
    gpu_memory_mib: int | None = None
    gpus: int | None = None
    vcpus: int | None = None
    vms: int | None = None
    profiles: Mapping[str, int] = field(default_factory=dict)
    reserved: Mapping[str, int] = field(default_factory=dict)
    weight: float = 1.0

    def exceeded_by(self, used: Amount, asked: Amount) -> tuple[Excess, ...]:
        """The limits that ``asked`` beside ``used`` would exceed; none that it does not touch."""
        return tuple(
            Excess(tenant=self.tenant, limit=name, used=has, asked=more, allowed=allowed)
            for name, allowed, has, more in self._lines(used, asked)
            if more > 0 and has + more > allowed
        )

    def _lines(self, used: Amount, asked: Amount) -> Iterator[tuple[str, int, int, int]]:
        for name in ("gpu_memory_mib", "gpus", "vcpus", "vms"):
            allowed = getattr(self, name)
            if allowed is not None:
                word = "gpu-memory" if name == "gpu_memory_mib" else name
                yield word, allowed, getattr(used, name), getattr(asked, name)
        for profile, allowed in sorted(self.profiles.items()):
            yield profile, allowed, used.profiles.get(profile, 0), asked.profiles.get(profile, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A limit that would be exceeded. ``limit`` names it: ``gpu-memory``, ``gpus``, ``vcpus``,
    ``vms``, or the profile.
    """

    tenant: str
    limit: str
    used: int
    asked: int
    allowed: int
