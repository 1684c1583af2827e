"""One reading of the ledger: everything that planning needs, and the domains of each host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeVar, overload

from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import NotFound
from vgpumgr.model.failover import NO_RESERVE, FailoverReserve
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.image import ImageRecord
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.licence import Licence
from vgpumgr.model.operation import TaskRecord
from vgpumgr.model.power import PowerBudget, PowerCap
from vgpumgr.model.queue import QueueEntry
from vgpumgr.model.quota import Quota
from vgpumgr.model.refusal import Refusal
from vgpumgr.model.vm import VmRecord

Row_co = TypeVar("Row_co", covariant=True)


class LateRows(Sequence[Row_co]):
    """Rows of the ledger that are read at the first use of one."""

    def __init__(self, read: Callable[[], Sequence[Row_co]]) -> None:
        self._read = read

    @cached_property
    def _rows(self) -> Sequence[Row_co]:
        return self._read()

    @overload
    def __getitem__(self, index: int) -> Row_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row_co]: ...
    def __getitem__(self, index: int | slice) -> Row_co | Sequence[Row_co]:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row_co]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@dataclass(frozen=True, slots=True)
class LedgerView:
    """Hosts with their last observation, GPUs, VMs, and the allocations that hold units.

    ``cut`` are the tasks of layouts that were not reached: what was to be done, and how far it got.
    ``quotas`` are the tenants', ``licences`` the seats that are declared, ``queue`` is what waits
    or runs on terms, ``images`` are disk images with their copies, ``refusals`` are what GPUs and
    hosts refused and no success has closed; a view of one host has none of them: nothing is placed
    by it. ``absent`` are bare image volumes that were looked for and are not there: host, storage
    pool, volume. ``reserve`` is what placement keeps for lost hosts, ``budgets`` what may be drawn;
    ``caps`` are GPUs that the controller holds below what they may have.
    """

    fleet: str
    hosts: tuple[HostRecord, ...]
    gpus: tuple[GpuRecord, ...]
    vms: tuple[VmRecord, ...]
    allocations: tuple[Allocation, ...]
    layouts: tuple[LayoutRecord, ...] = ()
    cut: tuple[TaskRecord, ...] = ()
    quotas: Sequence[Quota] = ()
    licences: Sequence[Licence] = ()
    queue: Sequence[QueueEntry] = ()
    images: Sequence[ImageRecord] = ()
    refusals: Sequence[Refusal] = ()
    absent: frozenset[tuple[str, str, str]] = frozenset()
    reserve: FailoverReserve = NO_RESERVE
    budgets: Sequence[PowerBudget] = ()
    caps: Sequence[PowerCap] = ()

    @property
    def backing_off(self) -> bool:
        """Is any GPU or host in back-off now?"""
        return any(each.left_s for each in self.refusals)

    def generations(self, hosts: Collection[str]) -> dict[str, int]:
        """The generations of these hosts, for a transaction that takes capacity there. With a
        reserve the first host of all is among them: of two such transactions at a time, each
        planned without the other, one is planned again.
        """
        first = {min(host.name for host in self.hosts)} if self.reserve.hosts and hosts else set()
        named = first.union(hosts)
        return {host.name: host.generation for host in self.hosts if host.name in named}


def read_host_view(ledger: Ledger, name: str) -> LedgerView:
    """The reading for one host: its rows, and VMs of other hosts whose marks it shows, with all
    their allocations.
    """
    host, layouts = ledger.host(name), ledger.layouts(name)
    vms = ledger.vms(name, _marked(host))
    return LedgerView(
        fleet=ledger.fleet_id(),
        hosts=(host,),
        gpus=ledger.gpus(name),
        vms=vms,
        allocations=ledger.allocations(name, [vm.id for vm in vms]),
        layouts=layouts,
        cut=_cut(ledger, layouts),
        caps=LateRows(lambda: ledger.power_caps(name)),
    )


def read_view(ledger: Ledger) -> LedgerView:
    """The reading of the whole ledger; quotas, licences, queue, images and refusals when first
    asked for.
    """
    layouts = ledger.layouts()
    return LedgerView(
        fleet=ledger.fleet_id(),
        hosts=ledger.hosts(),
        gpus=ledger.gpus(),
        vms=ledger.vms(),
        allocations=ledger.allocations(),
        layouts=layouts,
        cut=_cut(ledger, layouts),
        quotas=LateRows(ledger.quotas),
        licences=LateRows(ledger.licences),
        queue=LateRows(ledger.queue),
        images=LateRows(ledger.images),
        refusals=LateRows(ledger.refusals),
        budgets=LateRows(ledger.power_budgets),
        caps=LateRows(ledger.power_caps),
    )


_FEW = 8
"""Up to this number of hosts are read one by one, more by reading all."""


def named_hosts(ledger: Ledger, names: Collection[str]) -> list[HostRecord]:
    """The enrolled hosts among these."""
    if len(names) > _FEW:
        return [host for host in ledger.hosts() if host.name in names]
    found = []
    for name in sorted(names):
        with suppress(NotFound):
            found.append(ledger.host(name))
    return found


def named_gpus(ledger: Ledger, hosts: Collection[str]) -> list[GpuRecord]:
    """The GPUs of these hosts, by host and device."""
    if len(hosts) > _FEW:
        return [gpu for gpu in ledger.gpus() if gpu.host in hosts]
    return list(chain.from_iterable(map(ledger.gpus, sorted(hosts))))


def _marked(host: HostRecord) -> frozenset[str]:
    """The VMs whose marks the host's domains carry."""
    domains = host.facts.domains if host.facts else ()
    return frozenset(domain.ownership.vm_id for domain in domains if domain.ownership)


def _cut(ledger: Ledger, layouts: Sequence[LayoutRecord]) -> tuple[TaskRecord, ...]:
    operations = dict.fromkeys(each.operation for each in layouts if not each.settled)
    return tuple(task for operation in operations for task in ledger.tasks(operation))


@dataclass(frozen=True, slots=True)
class ObservedDomains:
    """The domains that run, and the domains that are defined at all, per host that answered the
    probe.

    ``resting`` hosts are in maintenance: they are left alone.
    """

    running: frozenset[tuple[str, str]]
    defined: frozenset[tuple[str, str]]
    hosts: frozenset[str]
    resting: frozenset[str] = frozenset()


def observed_domains(view: LedgerView) -> ObservedDomains:
    """The domains of the last observation, of hosts whose libvirt answered."""
    answered = {
        host.name: host.facts.domains
        for host in view.hosts
        if host.facts and not host.last_error and not _lacks_domains(host.facts)
    }
    domains = [(host, domain) for host, found in answered.items() for domain in found]
    return ObservedDomains(
        running=frozenset((host, d.name) for host, d in domains if d.state not in OFF),
        defined=frozenset((host, d.name) for host, d in domains),
        hosts=frozenset(answered),
        resting=frozenset(host.name for host in view.hosts if host.maintenance),
    )


def _lacks_domains(facts: HostFacts) -> bool:
    return any(unknown.part in {"libvirt", "domains"} for unknown in facts.unknown)
