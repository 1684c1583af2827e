"""A request digested for placement: only what matters, in values that can be compared and hashed.

Two requests with equal demands are interchangeable, so what was worked out for one of them (which
hosts fit, how well) holds for the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.vm import NumaPolicy, PlacementPolicy, VmSpec

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """``count`` alike GPU parts of one VM. ``model`` is the user's spelling; None means any."""

    profile: str
    model: str | None
    count: int

    @property
    def whole(self) -> bool:
        """Whether each part is a whole GPU."""
        return self.profile == PASSTHROUGH_PROFILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one VM needs of a host.

    ``memory_mib`` is ordinary memory (0 when huge pages back the VM), ``pages`` the number of huge
    pages of ``hugepage_kib``. ``kinds`` has whole GPUs first, ``vgpus`` counts the other parts.
    ``founding`` says that the VM is the first of the group it wants to be together with, so any
    host will do. ``name`` is empty unless a foreign domain somewhere has the VM's name: names
    would keep alike requests from being interchangeable.
    """

    policy: PlacementPolicy
    kinds: tuple[Kind, ...]
    vgpus: int
    vcpus: int
    memory_mib: int
    hugepage_kib: int
    pages: int
    pin_cpus: bool
    numa: NumaPolicy
    hosts: tuple[str, ...]
    host_labels: Labels
    together_with: Labels
    apart_from: Labels
    founding: bool
    networks: tuple[str, ...]
    bridges: tuple[str, ...]
    pools: tuple[str, ...]
    name: str

    @property
    def parts(self) -> int:
        """How many GPU parts the VM gets in all."""
        return sum(kind.count for kind in self.kinds)


def demand_of(
    request: VmSpec, policy: PlacementPolicy, *, founding: bool, name: str = ""
) -> Demand:
    """Digest ``request``; its own policy, when set, wins over ``policy``."""
    page = request.hugepage_kib or 0
    affinity = request.affinity
    kinds = _kinds(request)
    return Demand(
        policy=request.policy or policy,
        kinds=kinds,
        vgpus=sum(kind.count for kind in kinds if not kind.whole),
        vcpus=request.vcpus,
        memory_mib=0 if page else request.memory_mib,
        hugepage_kib=page,
        pages=-(-request.memory_mib * 1024 // page) if page else 0,
        pin_cpus=request.pin_cpus,
        numa=request.numa,
        hosts=affinity.hosts,
        host_labels=selector(affinity.host_labels),
        together_with=selector(affinity.together_with),
        apart_from=selector(affinity.apart_from),
        founding=founding,
        networks=_unique(nic.network for nic in request.nics),
        bridges=_unique(nic.bridge for nic in request.nics),
        pools=_pools(request),
        name=name,
    )


def selector(labels: Mapping[str, str]) -> Labels:
    """Labels as a hashable value."""
    return tuple(sorted(labels.items()))


def matches(wanted: Labels, labels: Mapping[str, str]) -> bool:
    """Whether every wanted pair is among ``labels``; wanting nothing matches nothing."""
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted)


def kind_key(profile: str, model: str | None) -> tuple[str, str | None]:
    """What makes two GPU parts of a VM alike: models compare without case."""
    return profile, model.casefold() if model is not None else None


def _kinds(request: VmSpec) -> tuple[Kind, ...]:
    kinds: dict[tuple[str, str | None], Kind] = {}
    for part in request.gpus:
        key = kind_key(part.profile, part.model)
        known = kinds.get(key, Kind(profile=part.profile, model=part.model, count=0))
        kinds[key] = replace(known, count=known.count + part.count)
    wanted = [kind for kind in kinds.values() if kind.count > 0]
    # Whole GPUs have the fewest choices; a named model has fewer than any model.
    return tuple(sorted(wanted, key=lambda kind: (not kind.whole, kind.model is None)))


def _pools(request: VmSpec) -> tuple[str, ...]:
    seed = [request.cloud_init.pool] if request.cloud_init else []
    return _unique([*(disk.pool for disk in request.disks), *seed])


def _unique(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))
