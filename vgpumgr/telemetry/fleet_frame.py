"""What the ledger knows of each GPU and of what VMs hold of it: the labels of their series.

A frame is made when the ledger has changed, and used until then: the texts in it are made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.helper.figure_families import VGPU_INFO_FAMILY
from vgpumgr.helper.series_text import head_text, label_text
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.desktop import DesktopRecord, PoolRecord
from vgpumgr.model.gpu import Framework, GpuInstance, GpuRecord, GpuState
from vgpumgr.model.health import HealthState
from vgpumgr.model.host import HostRecord
from vgpumgr.model.pool import PoolKind
from vgpumgr.model.vm import VmRecord

MIB = 1 << 20
RACK = "rack"
"""The label of a host that names its rack."""
_STATES = {state: label_text({"state": state}) for state in HealthState}
# Bound where a whole function is given away.
_VFIO = "vfio-pci"


class HeadTexts(dict[tuple[str, str], str]):
    """A newline, and all of a line but its value, by family and by the text of the labels that come
    last.
    """

    def __init__(self, labels: str) -> None:
        super().__init__()
        self.labels = labels

    def __missing__(self, key: tuple[str, str]) -> str:
        found = self[key] = f"\n{head_text(key[0], self.labels, key[1])}"
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOwner:
    """Whose a part is."""

    vm: str = ""
    tenant: str = ""
    pool: str = ""
    domain: str = ""
    user: str = ""

    def labels(self) -> dict[str, str]:
        """Of an info series."""
        found = {"vm": self.vm, "tenant": self.tenant, "pool": self.pool, "domain": self.domain}
        return {**found, **({"user": self.user} if self.user else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFrame:
    """What a VM holds of a GPU. ``name`` is the part's label ``vgpu``: its mdev, or its PCI
    address; ``info`` the text of what the ledger knows of it.
    """

    allocation: Allocation
    owner: PartOwner
    name: str
    heads: HeadTexts
    info: str
    instance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFrame:
    """A MIG GPU instance."""

    id: int
    heads: HeadTexts
    info: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFrame:
    """A GPU; ``number`` counts those of its host. ``info`` are the labels of its info series that
    the ledger knows, ``given_away`` whether a guest has all of it. ``known`` are the lines that the
    ledger tells: family, text, how many.
    """

    record: GpuRecord
    number: int
    heads: HeadTexts
    info: Mapping[str, str]
    health: str
    given_away: bool
    parts: tuple[PartFrame, ...] = ()
    instances: tuple[InstanceFrame, ...] = ()
    by_device: Mapping[str, PartFrame] = field(default_factory=dict)
    by_vm: Mapping[str, Sequence[PartFrame]] = field(default_factory=dict)
    known: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFrame:
    """A host with its GPUs, by device."""

    record: HostRecord
    labels: str
    rack: str
    gpus: tuple[GpuFrame, ...]


class FleetFrames:
    """Makes frames, reading after reading: those of GPUs of whose host the view has the very rows
    that it had before are used once more, with the texts that were made in them.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[object, ...], tuple[GpuFrame, ...]]] = {}

    def of(
        self,
        view: LedgerView,
        pools: Sequence[PoolRecord] = (),
        desktops: Sequence[DesktopRecord] = (),
        *,
        users: bool = False,
    ) -> tuple[HostFrame, ...]:
        """Every host with a frame for each of its GPUs. ``users``: the owners of dedicated desktops
        are named.
        """
        owners = _owners(view.vms, pools, desktops, users=users)
        held: dict[str, list[Allocation]] = {}
        for each in view.allocations:
            held.setdefault(each.gpu, []).append(each)
        gpus: dict[str, list[GpuRecord]] = {}
        for gpu in view.gpus:
            gpus.setdefault(gpu.host, []).append(gpu)
        last, self._last = self._last, {}
        return tuple(
            self._host(host, gpus.get(host.name, ()), held, owners, last.get(host.name))
            for host in view.hosts
        )

    def _host(
        self,
        host: HostRecord,
        gpus: Sequence[GpuRecord],
        held: Mapping[str, Sequence[Allocation]],
        owners: Mapping[str, PartOwner],
        last: tuple[tuple[object, ...], tuple[GpuFrame, ...]] | None,
    ) -> HostFrame:
        holds = [each for gpu in gpus for each in held.get(gpu.id, ())]
        rack = host.labels.get(RACK, "")
        rows = (rack, *gpus, *holds, *(owners.get(each.vm_id) for each in holds))
        # Equal rows are the very same ones but for owners: comparing them costs little.
        if last is not None and last[0] == rows:
            made = last[1]
        else:
            found = sorted(gpus, key=lambda each: each.facts.device)
            made = tuple(
                _gpu(host, number, each, held.get(each.id, ()), owners)
                for number, each in enumerate(found)
            )
        self._last[host.name] = rows, made
        return HostFrame(record=host, labels=label_text({"host": host.name}), rack=rack, gpus=made)


def frames(view: LedgerView) -> tuple[HostFrame, ...]:
    """Every host with a frame for each of its GPUs, for one use."""
    return FleetFrames().of(view)


def _owners(
    vms: Iterable[VmRecord],
    pools: Sequence[PoolRecord],
    desktops: Iterable[DesktopRecord],
    *,
    users: bool,
) -> dict[str, PartOwner]:
    by_id = {pool.id: pool for pool in pools}
    rows = {row.vm_id: row for row in desktops if row.vm_id and row.pool in by_id}
    return {vm.id: _owner(vm, rows.get(vm.id), by_id, users=users) for vm in vms}


def _owner(
    vm: VmRecord, row: DesktopRecord | None, pools: Mapping[str, PoolRecord], *, users: bool
) -> PartOwner:
    pool = pools[row.pool] if row is not None else None
    dedicated = pool is not None and pool.spec.kind is PoolKind.DEDICATED
    return PartOwner(
        vm=vm.spec.name,
        tenant=vm.spec.tenant,
        pool=pool.name if pool is not None else "",
        domain=vm.id,
        user=row.desktop.owner if users and dedicated and row is not None else "",
    )


def _gpu(
    host: HostRecord,
    number: int,
    gpu: GpuRecord,
    held: Sequence[Allocation],
    owners: Mapping[str, PartOwner],
) -> GpuFrame:
    uuid = gpu.facts.uuid or gpu.id
    base = label_text({"host": host.name, "UUID": uuid, "gpu": str(number)})
    parts = tuple(_part(gpu, base, each, owners) for each in held)
    by_vm: dict[str, list[PartFrame]] = {}
    for each in parts:
        by_vm.setdefault(each.allocation.vm_id, []).append(each)
    whole = any(each.framework == Framework.PASSTHROUGH for each in held)
    allocated = sum(memory_mib(gpu, each) for each in held)
    health = health_state(gpu)
    instances = tuple(_instance(base, each, held, owners) for each in _instances(gpu))
    return GpuFrame(
        record=gpu,
        number=number,
        heads=HeadTexts(base),
        info=_info(host, gpu, held),
        health=health,
        given_away=whole or gpu.facts.driver == _VFIO,
        parts=parts,
        instances=instances,
        by_device={each.allocation.device: each for each in parts},
        by_vm=by_vm,
        known=tuple(_known(base, allocated, health, parts, instances)),
    )


def _known(
    base: str,
    allocated_mib: int,
    health: str,
    parts: Sequence[PartFrame],
    instances: Sequence[InstanceFrame],
) -> Iterator[tuple[str, str, int]]:
    """The lines that stay as long as the ledger says the same."""
    name = "vgpumgr_gpu_framebuffer_allocated_bytes"
    yield name, f"\n{head_text(name, base)}{allocated_mib * MIB}", 1
    name = "vgpumgr_gpu_health_state"
    heads = ((state, head_text(name, base, labels)) for state, labels in _STATES.items())
    lines = [f"\n{head}{int(state == health)}" for state, head in heads]
    yield name, "".join(lines), len(lines)
    for name, inside in (
        (VGPU_INFO_FAMILY.name, [(each.heads.labels, each.info) for each in parts]),
        ("vgpumgr_gi_info", [(each.heads.labels, each.info) for each in instances]),
    ):
        lines = [f"\n{head_text(name, labels, info)}1" for labels, info in inside]
        yield name, "".join(lines), len(lines)


def health_state(gpu: GpuRecord) -> HealthState:
    """The GPU's condition; *quarantined* too where calls were refused or a person said so."""
    held_back = gpu.state is GpuState.QUARANTINED and gpu.condition.takes_vms
    return HealthState.QUARANTINED if held_back else gpu.condition


def memory_mib(gpu: GpuRecord, held: Allocation) -> int:
    """The GPU's memory that an allocation takes: all of it, its own, or that of its slots."""
    if held.memory_mib is not None:
        return held.memory_mib
    whole = gpu.facts.memory_mib or 0
    return whole * len(held.slots) // max(1, gpu.units)


def _info(host: HostRecord, gpu: GpuRecord, held: Sequence[Allocation]) -> dict[str, str]:
    facts = gpu.facts
    frameworks = sorted({each.framework for each in held})
    given = facts.driver == _VFIO and not frameworks
    node = facts.numa_node
    return {
        "pci": facts.device,
        "model": facts.model,
        "serial": facts.serial or "",
        "driver": facts.driver or "",
        "vbios": "",
        "mode": _mode(gpu),
        "framework": ",".join(frameworks) or (Framework.PASSTHROUGH if given else ""),
        "numa": "" if node is None else str(node),
        "rack": host.labels.get(RACK, ""),
    }


def _mode(gpu: GpuRecord) -> str:
    """How the GPU is shared: ``mig``, ``mixed-size``, ``same-size``, or given as a ``whole``."""
    facts = gpu.facts
    if facts.mig is not None and facts.mig.enabled:
        return "mig"
    if facts.mixed_size:
        return "mixed-size"
    shared = facts.mdev_types or any(not vf.is_plain for vf in facts.vfs)
    return "same-size" if shared else "whole"


def _instances(gpu: GpuRecord) -> Sequence[GpuInstance]:
    return (gpu.facts.mig.instances or ()) if gpu.facts.mig is not None else ()


def _part(
    gpu: GpuRecord, base: str, held: Allocation, owners: Mapping[str, PartOwner]
) -> PartFrame:
    owner = owners.get(held.vm_id, PartOwner(vm=held.vm, domain=held.vm_id))
    start = held.instance.start if held.instance is not None else None
    instance = next((each.id for each in _instances(gpu) if each.start == start), None)
    more = {
        "profile": held.profile,
        "allocation": held.id,
        "gi": "" if instance is None else str(instance),
    }
    return PartFrame(
        allocation=held,
        owner=owner,
        name=held.device,
        heads=HeadTexts(f"{base},{label_text({'vgpu': held.device})}"),
        info=label_text({**owner.labels(), **more}),
        instance=instance,
    )


def _instance(
    base: str,
    instance: GpuInstance,
    held: Sequence[Allocation],
    owners: Mapping[str, PartOwner],
) -> InstanceFrame:
    inside = [each for each in held if each.instance and each.instance.start == instance.start]
    who = [owners.get(each.vm_id, PartOwner(vm=each.vm)) for each in inside]
    labels = {
        "profile": instance.profile,
        "vm": ",".join(sorted({each.vm for each in who})),
        "tenant": ",".join(sorted({each.tenant for each in who if each.tenant})),
    }
    return InstanceFrame(
        id=instance.id,
        heads=HeadTexts(f"{base},{label_text({'gi': str(instance.id)})}"),
        info=label_text(labels),
    )
