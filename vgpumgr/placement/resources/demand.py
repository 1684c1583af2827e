"""Demands: requests reduced to what placement needs, and the offers of a GPU that answer them.

Two requests with equal demands are interchangeable, so what was worked out for one of them
(which hosts fit, how well) holds for the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from vgpumgr.model.formats import format_mib
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework
from vgpumgr.model.host import MachineFeature
from vgpumgr.model.port_rules import CLEAN_TRAFFIC, PortFilter
from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec

Labels = tuple[tuple[str, str], ...]


KindKey = tuple[str, tuple[str, ...], int, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartKind:
    """``count`` alike GPU parts of one VM, by name or, with ``profile`` empty, by size.

    ``models`` in the user's spelling; empty means any, as does a ``framework`` of None.
    ``memory_mib`` is 0 for parts by name. ``key`` tells which parts of the request these are.
    """

    profile: str
    models: tuple[str, ...] = field(compare=False)
    count: int
    memory_mib: int = 0
    framework: str | None = None
    key: KindKey = ("", (), 0, None)

    @property
    def whole(self) -> bool:
        """Whether each part is surely a whole GPU."""
        return PASSTHROUGH_PROFILE in (self.profile, self.framework)

    @property
    def words(self) -> str:
        """How a sentence names one part."""
        what = self.profile or format_mib(self.memory_mib)
        return f"{what} ({self.framework})" if self.framework else what

    def allows(self, model: str) -> bool:
        """Whether a GPU of ``model`` will do; case does not matter."""
        allowed = self.key[1]
        return not allowed or model.casefold() in allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one VM needs of a host.

    ``memory_mib`` is ordinary memory (0 when huge pages back the VM), ``pages`` the number of huge
    pages of ``hugepage_kib``. ``kinds`` has whole GPUs first, ``vgpus`` counts the parts that are
    not surely whole GPUs.
    ``founding`` says that the VM is the first of the group it wants to be together with, so any
    host will do. ``name`` is empty unless a foreign domain somewhere has the VM's name: names
    would keep alike requests from being interchangeable. ``file_pools`` are storage pools that are
    to hold files, ``disk_bytes`` the storage pool and size of each disk, ``pool_bytes`` all that
    one pool is to hold. ``images`` are storage pools, each with the volume of an image that disks
    are made from. ``sriov`` has for each NIC that is a VF the interface or the physical network.
    """

    policy: PlacementPolicy
    kinds: tuple[PartKind, ...]
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
    filters: tuple[str, ...]
    sriov: tuple[tuple[str, str], ...]
    features: tuple[MachineFeature, ...]
    pools: tuple[str, ...]
    file_pools: tuple[str, ...]
    disk_bytes: tuple[tuple[str, int], ...]
    pool_bytes: tuple[tuple[str, int], ...]
    images: tuple[tuple[str, str], ...]
    name: str

    @property
    def parts(self) -> int:
        """How many GPU parts the VM gets in all."""
        return sum(kind.count for kind in self.kinds)

    @property
    def whole(self) -> int:
        """How many parts are surely whole GPUs."""
        return self.parts - self.vgpus

    def all_whole(self) -> Demand:
        """The same with every part by size, of no named framework, answered by a whole GPU."""
        whole = Framework.PASSTHROUGH.value
        kinds = tuple(
            kind if kind.profile or kind.framework else replace(kind, framework=whole)
            for kind in self.kinds
        )
        vgpus = sum(kind.count for kind in kinds if not kind.whole)
        return replace(self, kinds=kinds, vgpus=vgpus)


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
        filters=_unique(_host_filter(nic.tuning.filter) for nic in request.nics),
        sriov=tuple(nic.wanted for nic in request.sriov_nics),
        features=tuple(_features(request)),
        pools=_pools(request),
        file_pools=_file_pools(request),
        disk_bytes=tuple((disk.pool, disk.size_bytes) for disk in request.disks if disk.size_bytes),
        pool_bytes=_pool_bytes(request),
        images=_images(request),
        name=name,
    )


def _file_pools(request: VmSpec) -> tuple[str, ...]:
    seed = request.cloud_init.pool if request.cloud_init else None
    return _unique([seed, *(disk.pool for disk in request.disks if disk.format != "raw")])


def _pool_bytes(request: VmSpec) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for disk in request.disks:
        if disk.size_bytes:
            found[disk.pool] = found.get(disk.pool, 0) + disk.size_bytes
    return tuple(sorted(found.items()))


def _images(request: VmSpec) -> tuple[tuple[str, str], ...]:
    of_disks = {disk.source for disk in request.disks if disk.source}
    return tuple(sorted(of_disks | {(cd.pool, cd.image) for cd in request.cds}))


def _features(request: VmSpec) -> Iterator[MachineFeature]:
    if request.tpm:
        yield MachineFeature.TPM
    if request.secure_boot:
        yield MachineFeature.SECURE_BOOT
    if any(nic.bridge and nic.tuning.vlan for nic in request.nics):
        yield MachineFeature.BRIDGE_VLAN


def selector(labels: Mapping[str, str]) -> Labels:
    """Labels as a hashable value."""
    return tuple(sorted(labels.items()))


def matches(wanted: Labels, labels: Mapping[str, str]) -> bool:
    """Whether every wanted pair is among ``labels``; wanting nothing matches nothing."""
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted)


def kind_key(part: GpuRequest) -> KindKey:
    """What makes two GPU parts of a VM alike: models compare without case."""
    models = tuple(sorted({model.casefold() for model in part.any_of}))
    memory_mib = 0 if part.profile else part.memory_mib or 0
    framework = None if part.framework in ("", "any") else part.framework
    return part.profile, models, memory_mib, framework


def kind_of(part: GpuRequest) -> PartKind:
    """One such part by itself."""
    return replace(_kind(part, kind_key(part)), count=1)


def _kinds(request: VmSpec) -> tuple[PartKind, ...]:
    kinds: dict[KindKey, PartKind] = {}
    for part in request.gpus:
        key = kind_key(part)
        known = kinds.get(key) or _kind(part, key)
        kinds[key] = replace(known, count=known.count + part.count)
    wanted = [kind for kind in kinds.values() if kind.count > 0]
    return tuple(sorted(wanted, key=_fewest_choices))


def _kind(part: GpuRequest, key: KindKey) -> PartKind:
    _, _, memory_mib, framework = key
    return PartKind(
        profile=part.profile, models=part.any_of, count=0, memory_mib=memory_mib,
        framework=framework, key=key,
    )  # fmt: skip


def _fewest_choices(kind: PartKind) -> tuple[bool, bool, bool, int]:
    """Whole GPUs have the fewest; a name has fewer than a size, a named model than any model."""
    return not kind.whole, not kind.profile, not kind.models, -kind.memory_mib


def _pools(request: VmSpec) -> tuple[str, ...]:
    seed = [request.cloud_init.pool] if request.cloud_init else []
    sources = (disk.source[0] for disk in request.disks if disk.source)
    cds = (cd.pool for cd in request.cds)
    return _unique([*(disk.pool for disk in request.disks), *sources, *cds, *seed])


def _host_filter(name: str) -> str | None:
    """The filter that a host has to have for a NIC: one of ours is made, and may need another."""
    own = PortFilter.named(name)
    if own is None:
        return name or None
    return CLEAN_TRAFFIC if own.clean else None


def _unique(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))


SERIES = {"Q": 0, "C": 1, "B": 2, "A": 3}
"""Series by what their guests can do, the most capable first."""

Rank = tuple[int, ...]


def whole(offer: Offer) -> bool:
    """Whether the offer is the GPU itself."""
    return offer.framework is Framework.PASSTHROUGH


def rank(offer: Offer) -> Rank:
    """The order among offers that have enough memory: lower is chosen first."""
    series = SERIES.get(offer.series, len(SERIES))
    return offer.memory_mib, whole(offer), series, offer.instance is not None


GIVEN_AWAY = 4.0
"""GPU that a VM gets beyond what it asked for costs so many times its size: what is idle may still
be of use to somebody, and a mix says that of little where it knows few who ask."""


def surplus(offer: Offer, kind: PartKind) -> float:
    """What giving the offer costs beyond what was asked for, per thing that it takes: 0 for parts
    by name.
    """
    if kind.profile or offer.memory_mib <= kind.memory_mib:
        return 0.0
    return GIVEN_AWAY * (1.0 - kind.memory_mib / offer.memory_mib)


def matching(offers: tuple[Offer, ...], kind: PartKind) -> tuple[Offer, ...]:
    """The offers of that name, or with that much memory, through the wanted framework."""
    found = [offer for offer in named(offers, kind) if kind.framework in (None, offer.framework)]
    return tuple(sorted(found, key=rank))


def named(offers: tuple[Offer, ...], kind: PartKind) -> list[Offer]:
    """The same, whatever the framework."""
    if not kind.profile:
        return [offer for offer in offers if offer.memory_mib >= kind.memory_mib]
    exact = [offer for offer in offers if offer.profile == kind.profile]
    return exact or [offer for offer in offers if kind.profile in offer.names]
