"""What has to hold after every command: read from the ledger and from the hosts themselves.

It looks at the simulated hosts' own memory, below helper, libvirt and probe.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.soak.hands import Foreign
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import FINAL_TASKS, OperationRecord, TaskRecord, TaskState
from vgpumgr.model.vm import VmRecord
from vgpumgr.sim.simulated_fleet import SimulatedFleet
from vgpumgr.sim.simulated_host import SimulatedHost

_CLAIMS = "file:/var/lib/vgpumgr/claims/"
_VOLUMES = "volume:"


@dataclass(frozen=True)
class Books:
    """One reading of the ledger of ``fleet``; ``frozen`` is why it may allocate nothing."""

    fleet: str
    frozen: str
    vms: dict[str, VmRecord]
    allocations: tuple[Allocation, ...]
    layouts: frozenset[str]
    waiting: tuple[OperationRecord, ...]
    unfinished: tuple[TaskRecord, ...]
    refused: tuple[TaskRecord, ...]

    @property
    def open_names(self) -> frozenset[str]:
        """The VMs that an open operation has not done with: who was refused may go elsewhere."""
        return frozenset(task.vm for task in (*self.unfinished, *self.refused))


def read(ledger: Ledger) -> Books:
    """All that the checks need of the ledger."""
    waiting = ledger.operations(open_only=True)
    tasks = [task for operation in waiting for task in ledger.tasks(operation.id)]
    said_no = {each.task for operation in waiting for each in ledger.refusals(operation.id)}
    frozen = ledger.frozen()
    return Books(
        fleet=ledger.fleet_id(),
        frozen=frozen.why if frozen else "",
        vms={vm.name: vm for vm in ledger.vms()},
        allocations=ledger.allocations(),
        layouts=frozenset(each.gpu for each in ledger.layouts()),
        waiting=waiting,
        unfinished=tuple(task for task in tasks if task.state not in FINAL_TASKS),
        refused=tuple(t for t in tasks if t.id in said_no and t.state is TaskState.UNDONE),
    )


class Reader:
    """Reads a ledger file anew only where something was committed since the last time."""

    def __init__(self, file: Path) -> None:
        self._watch = sqlite3.connect(file)
        self._version = -1
        self._books: Books | None = None

    def books(self, ledger: Ledger) -> Books:
        """What the ledger says now."""
        version = self._watch.execute("PRAGMA data_version").fetchone()[0]
        if self._books is None or version != self._version:
            self._books = read(ledger)
            self._version = version
        return self._books

    def close(self) -> None:
        """Let go of the file."""
        self._watch.close()


def check(
    books: Books,
    fleet: SimulatedFleet,
    foreign: Foreign,
    *,
    shaken: Collection[str],
    undefined: Collection[str],
) -> None:
    """``shaken`` are VMs whose power and devices may be otherwise than the ledger says,
    ``undefined`` those whose domain somebody took away.
    """
    _nothing_twice(books)
    _nothing_left_over(books, fleet, foreign)
    _foreign_untouched(fleet, foreign)
    for vm in books.vms.values():
        runs = [name for name, host in fleet.hosts.items() if _runs(host, vm)]
        assert len(runs) <= 1, f"{vm.name} runs on {runs}"
        if vm.name in books.open_names:
            continue
        _holds_what_it_asked_for(vm, books)
        if vm.name not in undefined:
            _is_on_its_host_alone(vm, fleet)
        if vm.name not in {*shaken, *undefined}:
            _claimed(vm, books, fleet.host(vm.host))
            assert bool(runs) == vm.running, f"{vm.name}: power is not {vm.running}"


def apart(mine: Books, theirs: Books, fleet: SimulatedFleet) -> None:
    """Two fleets on the same hosts: nothing is both's, every claim is of one of them, and no VM
    runs with what the other has claimed.
    """
    held = [(each, _held(each, fleet)) for each in (mine, theirs)]
    devices = [(each.host, d) for _, parts in held for each in parts for d in _devices(each)]
    _once("device of two fleets", devices)
    _once("VF of two fleets", (vf for _, parts in held for vf in _vfs(parts)))
    both = {each.id for each in mine.allocations} & {each.id for each in theirs.allocations}
    assert not both, f"allocations in both ledgers: {both}"
    for name, host in fleet.hosts.items():
        claimed = {unit: each["fleet"] for unit, each in _claimed_units(host).items()}
        whose = set(claimed.values())
        assert whose <= {mine.fleet, theirs.fleet}, f"claims of nobody's fleet on {name}: {whose}"
        for used, by in _used(host):
            owner = claimed.get(used, by)
            assert owner == by, f"{used} of fleet {owner} is in a VM of fleet {by} on {name}"


def _held(books: Books, fleet: SimulatedFleet) -> list[Allocation]:
    """What a fleet has, as the hosts' claims say. An open operation may have reserved more, which
    the other fleet cannot know of, and may have given some back.
    """
    claimed = {each for host in fleet.hosts.values() for each in claims(host, books.fleet).values()}
    return [e for e in books.allocations if e.vm not in books.open_names or e.id in claimed]


def _devices(held: Allocation) -> tuple[str, ...]:
    return tuple(each for each in (held.device, *held.companions) if each)


def _vfs(held: Iterable[Allocation]) -> Iterable[Hashable]:
    """By address, which both ledgers know the same."""
    return ((each.host, each.parent or each.device) for each in held if each.vf is not None)


def _used(host: SimulatedHost) -> Iterable[tuple[str, str]]:
    """The file of the claim on every device in a running domain of a fleet, and that fleet."""
    for each in marked(host):
        if each.state is DomainState.RUNNING and each.ownership is not None:
            for device in each.devices:
                kind = "pci" if ":" in device else "mdev"
                yield f"{kind}-{device}.json", each.ownership.fleet


def marked(host: SimulatedHost, fleet: str = "") -> list[DomainFacts]:
    """The domains that carry a mark, of that fleet alone if one is named."""
    return [
        each
        for each in host.domains.list()
        if each.ownership is not None and fleet in ("", each.ownership.fleet)
    ]


def claims(host: SimulatedHost, fleet: str = "") -> dict[str, str]:
    """Unit → allocation, as the files of the host say, of that fleet alone if one is named."""
    found = _claimed_units(host).items()
    return {unit: each["allocation"] for unit, each in found if fleet in ("", each["fleet"])}


def _claimed_units(host: SimulatedHost) -> dict[str, dict[str, str]]:
    found = host._durable.under(_CLAIMS)
    return {unit: json.loads(text) for unit, text in found.items()}


def shown(host: SimulatedHost) -> dict[str, object]:
    """All of a host that has to be as it was, when everybody has gone."""
    kernel = host.kernel
    return {
        "claims": sorted(claims(host).items()),
        "volumes": sorted(host._durable.under(_VOLUMES)),
        "mdevs": sorted(kernel.mdevs.devices),
        "domains": [each.name for each in host.domains.list()],
        "vGPUs": {address: gpu.vgpus for address, gpu in kernel.nvidia.items()},
        "drivers": {each.address: each.driver for each in kernel.pci.functions.values()},
    }


def _nothing_twice(books: Books) -> None:
    held = books.allocations
    _once("slot", ((each.gpu, slot) for each in held for slot in each.slots))
    _once("VF", ((each.gpu, each.vf) for each in held if each.vf is not None))
    _once("device", ((each.host, d) for each in held for d in (each.device, *each.companions)))


def _once(what: str, things: Iterable[Hashable]) -> None:
    twice = [thing for thing, times in Counter(things).items() if times > 1]
    assert not twice, f"{what} with two owners: {twice}"


def _nothing_left_over(books: Books, fleet: SimulatedFleet, foreign: Foreign) -> None:
    """What carries our name on a host has its owner in the ledger."""
    ids = {vm.id for vm in books.vms.values()}
    allocations = {each.id for each in books.allocations}
    devices = {each.device for each in books.allocations}
    for name, host in fleet.hosts.items():
        left = {each.name for each in marked(host, books.fleet) if each.ownership.vm_id not in ids}  # type: ignore[union-attr]
        assert not left, f"domains of nobody on {name}: {left}"
        unknown = set(claims(host, books.fleet).values()) - allocations - books.layouts
        assert not unknown, f"claims of nobody on {name}: {unknown}"
        others = set(claims(host)) - set(claims(host, books.fleet))
        mdevs = {
            each
            for each in host.kernel.mdevs.devices
            if (name, each) not in foreign.mdevs and f"mdev-{each}.json" not in others
        }
        assert mdevs <= devices, f"mdevs of nobody on {name}: {mdevs - devices}"


def no_disks_left(books: Books, fleet: SimulatedFleet) -> None:
    """Every volume has its VM in the ledger."""
    volumes = {
        (host, volume)
        for vm in books.vms.values()
        for host in (fleet.hosts if vm.name in books.open_names else (vm.host,))
        for _, volume in vm.volumes
    }
    for name, host in fleet.hosts.items():
        files = {key.split("/", 1)[1] for key in host._durable.under(_VOLUMES)}
        left = {each for each in files if (name, each) not in volumes} - set(host.host.images)
        assert not left, f"volumes of nobody on {name}: {left}"


def _foreign_untouched(fleet: SimulatedFleet, foreign: Foreign) -> None:
    for (host, name), (xml, state) in foreign.domains.items():
        found = fleet.host(host).domains.look(name)
        assert found is not None, f"domain {name} on {host} is gone, and was not ours"
        assert (fleet.host(host).domains.xml(name), found.state) == (xml, state)
    for (host, uuid), (parent, kind) in foreign.mdevs.items():
        device = fleet.host(host).kernel.mdevs.devices.get(uuid)
        assert device is not None, f"mdev {uuid} on {host} is gone, and was not ours"
        assert (device.parent.name, device.type.id) == (parent, kind)


def _holds_what_it_asked_for(vm: VmRecord, books: Books) -> None:
    held = [each for each in books.allocations if each.vm_id == vm.id]
    assert {each.host for each in held} <= {vm.host}, f"{vm.name} holds units of another host"
    asked = Counter({part.profile: part.count for part in vm.spec.gpus})
    assert Counter(each.profile for each in held) == asked


def _claimed(vm: VmRecord, books: Books, host: SimulatedHost) -> None:
    there = set(claims(host).values())
    mine = {each.id for each in books.allocations if each.vm_id == vm.id}
    assert mine <= there, f"{vm.name} lacks claims on {vm.host}: {mine - there}"


def _is_on_its_host_alone(vm: VmRecord, fleet: SimulatedFleet) -> None:
    there = [
        name
        for name, host in fleet.hosts.items()
        for each in marked(host)
        if each.ownership.vm_id == vm.id and each.persistent  # type: ignore[union-attr]
    ]
    assert there == [vm.host], f"{vm.name} is defined on {there}, belongs to {vm.host}"


def _runs(host: SimulatedHost, vm: VmRecord) -> bool:
    found = host.domains.look(vm.name)
    if found is None or found.ownership is None or found.ownership.vm_id != vm.id:
        return False
    return found.state is DomainState.RUNNING
