"""VMs in JSON: those of the ledger, and domains that are not managed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict

from vgpumgr.endpoints.figure_items import Hour, PartNow
from vgpumgr.endpoints.host_looks import Look, answers, look_item, observed_states
from vgpumgr.endpoints.shapes import Time
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.codec import to_plain
from vgpumgr.model.guest import GuestRecord
from vgpumgr.model.vm import VmRecord, VmState

if TYPE_CHECKING:
    from vgpumgr.model.defrag import LogoffMove
    from vgpumgr.model.domain import DomainFacts
    from vgpumgr.model.host import HostRecord
    from vgpumgr.model.scoped_reads import ScopedReads


class VmGpu(TypedDict):
    """A GPU part that a VM holds; of a foreign domain little is known but its ``device``. ``hour``:
    its share of the GPU's time in each minute of the last hour, the oldest first.
    """

    profile: str
    framework: str
    gpu: str
    device: str
    parent: str
    state: NotRequired[str]
    vf: NotRequired[int | None]
    instance: NotRequired[dict[str, Any] | None]
    placement_id: NotRequired[int | None]
    frame_rate_limiter: NotRequired[bool | None]
    partition: NotRequired[int | None]
    now: NotRequired[PartNow | None]
    hour: NotRequired[Hour]


class VmVolume(TypedDict):
    """A volume that was made for a VM; a disk's has a format, and a size, 0 where that is its
    image's.
    """

    pool: str
    name: str
    format: NotRequired[str]
    size_bytes: NotRequired[int]


class VmCd(TypedDict):
    """A CD in a drive of a VM; ``boot``: it is booted from before the disks."""

    pool: str
    image: str
    boot: bool


class VmNicFunction(TypedDict):
    """A NIC of a VM that is a VF: asked for by the interface (``physical``) or the physical
    ``network`` of the host's NIC. ``device`` is the VF that it has; empty while it is shelved.
    """

    number: int
    physical: str
    network: str
    device: str
    vlan: int | None
    trust: bool
    spoof_check: bool


class VmGuestItem(TypedDict):
    """The guest of a VM that has profiles: its phase (``unknown``, ``starting``, ``ready``,
    ``failed``), and why it is not ready. ``seed_emptied``: what prepared it is no longer on its
    seed.
    """

    phase: str
    why: str
    since: Time | None
    ready_at: Time | None
    profiles: list[str]
    seed_emptied: bool


class WaitingMove(TypedDict):
    """A move of a VM that waits until ``user`` has logged off."""

    host: str
    user: str
    why: str


class VmItem(Look):
    """A VM. ``power_seen`` is what its host showed at the last look, ``power`` is unknown where the
    host has not answered since. ``status`` is state and power in one word. ``owner``: ``foreign``
    are domains that others made.
    """

    name: str
    id: str
    host: str
    moving_to: str | None
    state: str
    status: str
    power: str
    power_seen: str
    wanted_running: bool | None
    vcpus: int
    memory_mib: int
    tenant: str
    flavour: str
    os: str
    guest: VmGuestItem | None
    labels: dict[str, str]
    gpus: list[VmGpu]
    volumes: list[VmVolume]
    cds: list[VmCd]
    snapshots: list[str]
    cpus: list[int]
    nic_functions: list[VmNicFunction]
    numa_node: int | None
    owner: str
    adopted: bool
    moves: list[WaitingMove]


UNKNOWN = "unknown"
_OFF = frozenset({"shutoff", "crashed"})


def vm_item(
    vm: VmRecord,
    held: Sequence[Allocation],
    power: str,
    look: Look,
    moves: Sequence[LogoffMove] = (),
) -> VmItem:
    """The JSON of a VM, with what its host showed at the last look."""
    now = power if answers(look) else UNKNOWN
    return {
        "name": vm.name,
        "id": vm.id,
        "host": vm.host,
        "moving_to": vm.moving_to.host if vm.moving_to else None,
        "state": str(vm.state),
        "status": _status(vm, now),
        "power": now,
        "power_seen": power,
        **look,
        "wanted_running": vm.running,
        "vcpus": vm.spec.vcpus,
        "memory_mib": vm.spec.memory_mib,
        "tenant": vm.spec.tenant,
        "flavour": vm.spec.flavour,
        "os": vm.spec.os,
        "guest": guest_item(vm),
        "labels": dict(vm.spec.labels),
        "gpus": [
            {
                "profile": each.profile,
                "framework": each.framework,
                "gpu": each.gpu,
                "device": each.device,
                "parent": each.parent,
                "state": str(each.state),
                "vf": each.vf,
                "instance": to_plain(each.instance),
                "placement_id": each.placement_id,
                "frame_rate_limiter": each.frame_rate_limiter,
                "partition": each.partition,
            }
            for each in sorted(held, key=lambda each: (each.parent or each.device, each.device))
        ],
        "volumes": list(_volumes(vm)),
        "cds": [{"pool": cd.pool, "image": cd.image, "boot": cd.boot} for cd in vm.spec.cds],
        "snapshots": [each.name for each in vm.snapshots],
        "cpus": list(vm.cpus),
        "nic_functions": list(_nic_functions(vm)),
        "numa_node": vm.numa_node,
        "owner": "vgpumgr",
        "adopted": bool(vm.definition),
        "moves": [{"host": each.host, "user": each.user, "why": each.why} for each in moves],
    }


def guest_item(vm: VmRecord) -> VmGuestItem | None:
    """The JSON of a VM's guest; None where nothing says when it is ready."""
    if vm.spec.guest is None:
        return None
    known = vm.guest or GuestRecord(vm_id=vm.id)
    return {
        "phase": str(known.phase),
        "why": known.why,
        "since": known.since or None,
        "ready_at": known.ready_at or None,
        "profiles": [each.name for each in vm.spec.guest.profiles],
        "seed_emptied": known.emptied_at > 0,
    }


def _nic_functions(vm: VmRecord) -> Iterator[VmNicFunction]:
    held = iter(() if vm.state is VmState.SHELVED else vm.nic_functions)
    for number, nic in enumerate(vm.spec.nics):
        if nic.sriov is not None:
            yield {
                "number": number,
                "physical": nic.sriov.physical,
                "network": nic.sriov.network,
                "device": next(held, ""),
                "vlan": nic.sriov.vlan,
                "trust": nic.sriov.trust,
                "spoof_check": nic.sriov.spoof_check,
            }


def _volumes(vm: VmRecord) -> Iterator[VmVolume]:
    """The disks' first; behind them the cloud-init seed's."""
    for number, (pool, name) in enumerate(vm.volumes):
        if number < len(vm.spec.disks):
            disk = vm.spec.disks[number]
            size = disk.size_bytes
            yield {"pool": pool, "name": name, "format": disk.format, "size_bytes": size}
        else:
            yield {"pool": pool, "name": name}


def _status(vm: VmRecord, power: str) -> str:
    """``stopped`` and ``down`` are active VMs that do not run: as asked for, or against it."""
    if vm.state is not VmState.ACTIVE or power not in _OFF:
        return str(vm.state)
    return "down" if vm.running else "stopped"


def vm_items(reads: ScopedReads) -> list[VmItem]:
    """Our VMs, then the foreign domains of the last observation."""
    held: dict[str, list[Allocation]] = {}
    for allocation in reads.allocations():
        held.setdefault(allocation.vm_id, []).append(allocation)
    moves: dict[str, list[LogoffMove]] = {}
    for move in reads.logoff_moves():
        moves.setdefault(move.vm_id, []).append(move)
    vms, hosts = reads.vms(), reads.hosts()
    states = observed_states(hosts)
    looks = {host.name: look_item(host) for host in hosts}
    ours = {(vm.host, vm.name) for vm in vms}
    ours |= {(vm.moving_to.host, vm.name) for vm in vms if vm.moving_to}
    items = [
        vm_item(
            vm,
            held.get(vm.id, ()),
            states.get((vm.host, vm.name), UNKNOWN),
            looks.get(vm.host) or look_item(None),
            moves.get(vm.id, ()),
        )
        for vm in vms
    ]
    foreign = [
        _foreign(host, domain)
        for host in hosts
        if host.facts
        for domain in host.facts.domains
        if (host.name, domain.name) not in ours and not _was_left(host, domain)
    ]
    return [*items, *foreign]


def _was_left(host: HostRecord, domain: DomainFacts) -> bool:
    """Is it what an evacuated VM left? That was seen last before its host was proven off."""
    return host.evacuated and domain.ownership is not None


def _foreign(host: HostRecord, domain: DomainFacts) -> VmItem:
    look = look_item(host)
    return {
        "name": domain.name,
        "id": domain.uuid,
        "host": host.name,
        "moving_to": None,
        "state": "foreign",
        "status": "foreign",
        "power": str(domain.state) if answers(look) else UNKNOWN,
        "power_seen": str(domain.state),
        **look,
        "wanted_running": None,
        "vcpus": domain.vcpus,
        "memory_mib": domain.memory_mib,
        "tenant": "",
        "flavour": "",
        "os": "",
        "guest": None,
        "labels": {},
        "gpus": [
            {"profile": "?", "framework": "", "gpu": "", "device": device, "parent": ""}
            for device in domain.devices
        ],
        "volumes": [],
        "cds": [],
        "snapshots": [],
        "cpus": [],
        "nic_functions": [],
        "numa_node": None,
        "owner": "foreign",
        "adopted": False,
        "moves": [],
    }
