"""Reads from the two hosts of a move that their probes do not hold."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vgpumgr.engine.steps.volume_steps import file_digest
from vgpumgr.engine.storage.shared_storage import is_one_storage
from vgpumgr.model.domain import DomainFacts, DomainState, KeptBeside, VolumeFacts
from vgpumgr.model.errors import HostUnreachable, NotFound, VgpumgrError
from vgpumgr.model.host import HostRecord, StoragePool
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import VmRecord

# No image is laid over more than this.
_MOST_BASES = 16

Volumes = Mapping[tuple[str, str], VolumeFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseImage:
    """An image below an overlay. ``here`` and ``there`` are digests, or what was compared instead;
    ``how`` says which. An image that is not on the target has ``there`` None.
    """

    pool: str
    name: str
    here: object
    there: object | None
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveReads:
    """The domain on its host and its namesake on the target, volumes by pool and name, and
    whether the guest's CPU can be had there (None: libvirt cannot tell).
    """

    domain: DomainFacts
    xml: str
    namesake: DomainFacts | None
    here: Volumes = field(default_factory=dict)
    there: Volumes = field(default_factory=dict)
    bases: tuple[BaseImage, ...] = ()
    beside: KeptBeside = field(default_factory=KeptBeside)
    cpu_fits: bool | None = None

    @property
    def runs(self) -> bool:
        """Does the guest run?"""
        return self.domain.state is DomainState.RUNNING


def look(vm: VmRecord, source: Host, target: Host, to: HostRecord) -> MoveReads:
    """Look; raises what keeps a host from being looked at."""
    domain = source.domains.look(vm.name)
    if domain is None:
        raise NotFound(
            f"domain {vm.name} is not defined on {source.name}",
            next=f"vgpumgr vm start {vm.name}   (it is defined again)",
        )
    runs = domain.state is DomainState.RUNNING
    pools = {pool.name: pool for pool in to.facts.pools} if to.facts else {}
    return MoveReads(
        domain=domain,
        xml=source.domains.xml(vm.name),
        namesake=target.domains.look(vm.name),
        here=dict(_volumes(vm, source)),
        there=dict(_volumes(vm, target, set(pools))),
        bases=tuple(_bases(vm, source, target, pools)),
        beside=source.domains.kept_beside(vm.name),
        cpu_fits=target.domains.cpu_fits(source.domains.live_xml(vm.name)) if runs else True,
    )


def _volumes(
    vm: VmRecord, host: Host, pools: set[str] | None = None
) -> Iterator[tuple[tuple[str, str], VolumeFacts]]:
    for pool, name in vm.every_volume:
        found = host.storage.look(pool, name) if pools is None or pool in pools else None
        if found is not None:
            yield (pool, name), found


def _bases(
    vm: VmRecord, source: Host, target: Host, pools: Mapping[str, StoragePool]
) -> Iterator[BaseImage]:
    own = {pool.name: pool for pool in source.storage.pools()}
    for pool, image in sorted(set(vm.spec.needed_images)):
        here, there = own.get(pool), pools.get(pool)
        one = here is not None and there is not None and is_one_storage(here, there)
        for name in _chain(source, here.path if here else "", image):
            yield _base(pool, name, source, target if there else None, one_storage=one)


def _chain(host: Host, pool_path: str, image: str) -> list[str]:
    """The image and what it is laid over itself, all in one pool."""
    found = [image]
    while len(found) < _MOST_BASES:
        path = posixpath.join(pool_path, found[-1])
        seen = host.helper.call("image_inspect", {"path": path, "pool_path": pool_path})
        backing = seen.get("backing")
        if not isinstance(backing, str) or not backing:
            break
        found.append(posixpath.basename(backing))
    return found


def _base(
    pool: str, name: str, source: Host, target: Host | None, *, one_storage: bool
) -> BaseImage:
    """A target of None lacks the pool. What both hosts see is not read twice."""
    here = source.storage.look(pool, name)
    there = target.storage.look(pool, name) if target is not None else None
    if here is None or there is None or target is None:
        return BaseImage(pool=pool, name=name, here=here and here.path, there=None, how="")
    if one_storage:
        return BaseImage(pool=pool, name=name, here=name, there=name, how="its place")
    try:
        digests = file_digest(source, here.path), file_digest(target, there.path)
        return BaseImage(pool=pool, name=name, here=digests[0], there=digests[1], how="digest")
    except HostUnreachable:
        raise
    except VgpumgrError as error:
        return BaseImage(
            pool=pool,
            name=name,
            here=here.capacity_bytes,
            there=there.capacity_bytes,
            how=f"size alone, its bytes could not be compared: {error.message}",
        )
