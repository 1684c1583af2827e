"""A ledger of two tenants with a marker in every text of each, and every read within a scope."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.poolsim import SYSTEM
from tests.poolsim import spec as pool_spec
from tests.unit.store.values import SLOTS, allocation, board, end, facts, refused, start, task, vm
from vgpumgr.model.actor import Actor, LoginMethod, acting
from vgpumgr.model.console_ticket import ConsoleTicket
from vgpumgr.model.defrag import LogoffMove
from vgpumgr.model.desktop import (
    Booking,
    Desktop,
    DesktopRecord,
    DesktopRequest,
    DesktopRequestRecord,
    DesktopSession,
    DesktopState,
    PoolRecord,
)
from vgpumgr.model.domain import DomainFacts, DomainState, Ownership
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import ClaimFacts, HostRecord
from vgpumgr.model.image import ImageRecord
from vgpumgr.model.operation import (
    OperationMoved,
    OperationState,
    Reservation,
    TaskMoved,
    TaskState,
)
from vgpumgr.model.queue import QueueEntry, QueueState
from vgpumgr.model.quota import Quota
from vgpumgr.model.role_binding import Scope
from vgpumgr.model.scoped_reads import ScopedReads
from vgpumgr.model.snapshot import NO_SNAPSHOTS, DiskMoment, Snapshot
from vgpumgr.model.vm import VmRecord, VmSpec
from vgpumgr.model.vm_backup import VmBackup
from vgpumgr.model.webhook import Webhook
from vgpumgr.store import SqlLedger, open_ledger

BLUE, RED = "markblue", "markred"
TENANTS = (BLUE, RED)
OPERATOR = "operator"
# A name that each of them had in turn: first RED, then BLUE.
REUSED = "reused"


def record(name: str, tenant: str, **fields: object) -> VmRecord:
    """A VM of a tenant, with its marker in labels, volumes and a snapshot."""
    spec = VmSpec(
        name=name, vcpus=1, memory_mib=512, tenant=tenant, labels={f"{tenant}-key": tenant}
    )
    values = {"id": f"id-{name}", "spec": spec, "volumes": (("default", f"{name}.qcow2"),)}
    kept = Snapshot(
        name=f"{tenant}-kept",
        created_at=1.0,
        moment=DiskMoment.OFF,
        volumes=(("default", f"{name}-before.qcow2"),),
    )
    values["snapshots"] = NO_SNAPSHOTS.taken(kept)
    return vm(name, **(values | fields))


def person(tenant: str) -> Actor:
    """Somebody who acts for a tenant, by a token, from its own network."""
    return Actor(
        user=f"{tenant}-person",
        tenant=tenant,
        method=LoginMethod.TOKEN,
        address=f"{tenant}-address",
        credential=f"{tenant}-token",
    )


class TwoTenants:
    """The ledger; ``close`` it in the end."""

    def __init__(self, place: str | Path) -> None:
        self.now = 1000.0
        self.ledgers = {
            each: open_ledger(place, by=f"{each}-person@here", now=lambda: self.now)
            for each in (*TENANTS, OPERATOR)
        }
        self.ledger = self.ledgers[OPERATOR]
        self._fleet()
        for number, each in enumerate(TENANTS):
            with acting(person(each)):
                self._fill(each, number)
        with acting(replace(person(RED), user=OPERATOR, tenant="")):
            self._shared()
        self._reused()
        self._seen()

    def close(self) -> None:
        for each in self.ledgers.values():
            each.close()

    def within(self, tenant: str) -> ScopedReads:
        return self.ledger.within(Scope.of(tenant))

    def _fleet(self) -> None:
        self.ledger.add_host(HostRecord(name="h1", address=f"root@{RED}"))
        gpus = [board("h1", 1), board("h1", 2)]
        self.ledger.observe(facts("h1", *gpus), {each.device: SLOTS for each in gpus}, 100.0)

    def _fill(self, mark: str, number: int) -> None:
        ledger, gpu = self.ledgers[mark], self.ledger.gpus()[0]
        desk, desktop = record(f"{mark}-vm", mark), record(f"{mark}-desk", mark)
        held = allocation(desk, gpu, [number], f"{mark}-device")
        held = replace(held, parent=mark, companions=(mark,))
        begun = start(held, vms=[desk, desktop])
        begun = replace(begun, tasks=tuple(replace(each, error=mark) for each in begun.tasks))
        ledger.reserve(self._of(begun, mark))
        ledger.refuse([replace(refused(f"{mark}-no", text=f"{mark} is in the way"),
                               spec=record(f"{mark}-no", mark).spec)])  # fmt: skip
        waits = QueueEntry(id=f"q-{mark}", vm=record(f"{mark}-q", mark).spec, since=900.0,
                           state=QueueState.WAITING, why=f"behind {mark}")  # fmt: skip
        ledger.enqueue([waits])
        ledger.set_quota(Quota(tenant=mark, vms=9))
        ledger.set_secret(mark, f"{mark}-key", "0" * 64)
        ledger.enter_backup(VmBackup(id=f"k-{mark}", vm_id=desk.id, vm=desk.name, tenant=mark,
                                     target="vault", pool="backups", host="h1", created_at=900.0,
                                     moment=DiskMoment.OFF))  # fmt: skip
        self._pool(ledger, mark, desktop)
        ledger.book(Booking(id=f"b-{mark}", group=mark, profile=mark, count=1, start=1.0, end=2.0),
                    mark)  # fmt: skip
        ledger.ask_ticket(ConsoleTicket(id=f"t-{mark}", vm_id=desk.id, vm=desk.name, user=mark,
                                        machine=mark, key=mark, asked_at=1.0))  # fmt: skip
        ledger.add_webhook(Webhook(id=f"w-{mark}", name=f"{mark}-hook", tenant=mark, events=(mark,),
                                   url=f"https://{mark}.example.org/"))  # fmt: skip
        ledger.await_logoff([LogoffMove(id=f"m-{mark}", vm_id=desk.id, vm=desk.name, user=mark,
                                        host="h1", leaves=(mark,), takes=(mark,), why=mark,
                                        asked_at=1.0)])  # fmt: skip

    def _of(self, begun: Reservation, mark: str) -> Reservation:
        operation = replace(begun.operation, id=f"op-{mark}-{begun.operation.id}", summary=mark)
        tasks = tuple(replace(each, operation=operation.id) for each in begun.tasks)
        return replace(begun, operation=operation, tasks=tasks)

    def _pool(self, ledger: SqlLedger, mark: str, vm_: VmRecord) -> None:
        spec = replace(pool_spec(name=f"{mark}-pool"), desktop=replace(vm_.spec, disks=(SYSTEM,)))
        ledger.put_pool(PoolRecord(id=f"p-{mark}", spec=spec, created_at=1.0))
        desktop = Desktop(name=vm_.name, state=DesktopState.READY, image=mark, since=1.0, host="h1",
                          owner=f"{mark}-user")  # fmt: skip
        row = DesktopRecord(id=f"d-{mark}", pool=f"p-{mark}", desktop=desktop, vm_id=vm_.id,
                            why=f"{mark} said so")  # fmt: skip
        ledger.take_desktops([row])
        [made] = [each for each in ledger.desktops() if each.id == row.id]
        session = DesktopSession(user=f"{mark}-user", since=2.0, active=2.0, booking=mark)
        ledger.take_desktops([replace(made, desktop=replace(desktop, session=session))])
        ask = DesktopRequest(user=f"{mark}-asks", since=9.0, groups=frozenset({mark}))
        ledger.ask_desktop(DesktopRequestRecord(id=f"a-{mark}", pool=f"p-{mark}", ask=ask))

    def _shared(self) -> None:
        """An operation on VMs of both, whose texts name both."""
        texts = f"{BLUE}-vm waits for {RED}-vm.qcow2, {RED}-user works on {RED}-desk"
        operation = replace(start().operation, id="op-shared", summary=texts)
        vms = [self.ledger.vm(f"{each}-vm") for each in TENANTS]
        tasks = tuple(replace(task(each, operation.id), error=texts) for each in vms)
        self.ledger.reserve(start(operation=operation, tasks=tasks))
        told = OperationMoved(operation=operation.id, state=OperationState.INTERRUPTED,
                              summary=texts)  # fmt: skip
        self.ledger.record(told)
        for each in tasks:
            self.ledger.record(TaskMoved(task=each.id, state=TaskState.RUNNING, error=texts))
            self.ledger.record(TaskMoved(task=each.id, state=TaskState.FAILED, error=texts))

    def _reused(self) -> None:
        """A VM of one was deleted, and the other made one of that name."""
        for number, mark in enumerate((RED, BLUE)):
            self.now = 2000.0 + 10 * number
            made = record(REUSED, mark, id=f"id-{mark}-{REUSED}", created_at=self.now)
            begun = self._of(start(vms=[made]), mark)
            self.ledgers[mark].reserve(begun)
            self.now += 5
            if mark == RED:
                end(self.ledgers[mark], begun)
            else:
                queued = QueueEntry(id="q-reused", vm=replace(made.spec, name="later"),
                                    since=self.now, state=QueueState.WAITING,
                                    why=f"behind {RED}-vm")  # fmt: skip
                self.ledgers[mark].enqueue([queued])

    def _seen(self) -> None:
        """The host as a probe shows it, with both tenants' domains; a GPU that refused."""
        domains = tuple(
            DomainFacts(name=each.name, uuid=each.id, state=DomainState.RUNNING,
                        ownership=Ownership(fleet="f", vm=each.name, vm_id=each.id, generation=1))
            for each in self.ledger.vms()
        )  # fmt: skip
        claims = tuple(
            ClaimFacts(
                unit=each.name, fleet="f", epoch=1, allocation="a", generation=1, vm=each.name
            )
            for each in self.ledger.vms()
        )
        gpus = (board("h1", 1), board("h1", 2))
        seen = facts("h1", *gpus, domains=domains, claims=claims, boot_id=RED, hostname=RED)
        self.ledger.observe(seen, {each.device: SLOTS for each in gpus}, 3000.0)
        self.ledger.quarantine(self.ledger.gpus()[1].id, f"it refused {RED}-vm")
        self.ledger.observation_failed("h1", f"it held {RED}-vm")
        image = ImageRecord(
            id="i-1",
            name="cad",
            version="1",
            format="qcow2",
            virtual_bytes=1,
            file_bytes=1,
            sha256="x",
            source=f"/home/{RED}",
            created_at=1.0,
        )
        self.ledger.reserve(start(images=(image,)))


NAMES = (
    *(f"{mark}-{part}" for mark in TENANTS for part in ("vm", "desk", "q", "pool", "no", "user")),
    *(REUSED, "markre-vm", "nothing", "", "h1", "h2", "later"),
)
IDS = (
    *(f"{part}-{mark}" for mark in TENANTS for part in ("p", "q", "t", "op", "d", "m", "b")),
    *("op-shared", "op-", "", "nothing"),
)
Read = Callable[[ScopedReads, random.Random], object]


def name(draw: random.Random) -> str:
    return draw.choice(NAMES)


def id_(draw: random.Random) -> str:
    return draw.choice(IDS)


def _sentence(draw: random.Random) -> str:
    words = ["taken by", name(draw), f"({name(draw)}.qcow2)", f"{name(draw)}: in use", name(draw)]
    return " ".join(draw.sample(words, 3))


def tasks_of_all(reads: ScopedReads, draw: random.Random) -> object:
    return [reads.tasks(each.id) for each in reads.operations()]


def audit(reads: ScopedReads, draw: random.Random) -> object:
    kinds = ("vm", "operation", "event", "by", "host", "user", "tenant")
    filters = {each: name(draw) for each in draw.sample(kinds, draw.randrange(3))}
    return reads.audit(
        **filters, since=draw.choice((None, 0.0, 2005.0)), limit=draw.choice((None, 5))
    )


READS: dict[str, Read] = {
    "vms": lambda reads, draw: reads.vms(draw.choice((None, "h1", "h2"))),
    "vm": lambda reads, draw: reads.vm(name(draw)),
    "allocations": lambda reads, draw: reads.allocations(
        draw.choice((None, "h1")), released=draw.choice((True, False))
    ),
    "pools": lambda reads, _: reads.pools(),
    "pool": lambda reads, draw: reads.pool(name(draw)),
    "desktops": lambda reads, draw: reads.desktops(draw.choice(((), (name(draw),)))),
    "pool_sessions": lambda reads, draw: reads.pool_sessions(id_(draw), 10),
    "pool_asks": lambda reads, _: reads.pool_asks(),
    "bookings": lambda reads, _: reads.bookings(),
    "logoff_moves": lambda reads, _: reads.logoff_moves(),
    "queue": lambda reads, draw: reads.queue(draw.choice(((), (name(draw),)))),
    "quotas": lambda reads, _: reads.quotas(),
    "secrets": lambda reads, _: reads.secrets(),
    "vm_backups": lambda reads, _: reads.vm_backups(),
    "secret_references": lambda reads, _: reads.secret_references(),
    "webhooks": lambda reads, _: reads.webhooks(),
    "requests": lambda reads, draw: reads.requests(vm=draw.choice(("", name(draw)))),
    "tickets": lambda reads, draw: reads.tickets(draw.choice(((), (id_(draw),)))),
    "operations": lambda reads, draw: reads.operations(open_only=draw.choice((True, False))),
    "operation": lambda reads, draw: reads.operation(id_(draw)),
    "own_operation": lambda reads, draw: reads.own_operation(id_(draw)),
    "tasks": lambda reads, draw: reads.tasks(id_(draw)),
    "operation_subjects": lambda reads, draw: reads.operation_subjects(
        [each.id for each in reads.operations()] + [id_(draw)]
    ),
    "tasks of all": tasks_of_all,
    "audit": audit,
    "audit_after": lambda reads, draw: reads.audit_after(draw.randrange(40), draw.choice((3, 90))),
    "hosts": lambda reads, _: reads.hosts(),
    "host": lambda reads, draw: reads.host(name(draw)),
    "gpus": lambda reads, draw: reads.gpus(draw.choice((None, "h1"))),
    "images": lambda reads, _: reads.images(),
    "redacted": lambda reads, draw: reads.redacted((_sentence(draw), {"vm": name(draw)})),
}


def said(reads: ScopedReads, read: Read, draw: random.Random) -> str:
    """All that a read tells, also by its error, without what was asked for by name."""
    asked: list[str] = []
    draw_ = _Asking(draw, asked)
    try:
        found = repr(read(reads, draw_))
    except VgpumgrError as error:
        found = repr(error.as_dict())
        for each in asked:
            found = found.replace(each, "") if each else found
    return found


class _Asking(random.Random):
    """Draws as another one, and remembers what was drawn: an error may name what was asked for."""

    def __init__(self, draw: random.Random, asked: list[str]) -> None:
        super().__init__()
        self._draw, self._asked = draw, asked

    def choice(self, seq: Any) -> Any:
        drawn = self._draw.choice(seq)
        if isinstance(drawn, str):
            self._asked.append(drawn)
        return drawn

    def sample(self, population: Any, k: int, *, counts: Any = None) -> Any:
        return self._draw.sample(population, k, counts=counts)

    def randrange(self, *args: Any) -> int:
        return self._draw.randrange(*args)


# The reads by which each filter is missed first.
OF_FILTERS = {
    "VMs": "vms",
    "allocations": "allocations",
    "pools": "pools",
    "desktops": "desktops",
    "pool sessions": "pool_sessions",
    "pool asks": "pool_asks",
    "bookings": "bookings",
    "logoff moves": "logoff_moves",
    "queue": "queue",
    "quotas": "quotas",
    "secrets": "secrets",
    "backups": "vm_backups",
    "requests": "requests",
    "tickets": "tickets",
    "operations": "operations",
    "tasks": "tasks of all",
    "tasks of VMs": "tasks of all",
    "audit": "audit",
    "webhooks": "webhooks",
}


def leaks(
    reads: ScopedReads, foreign: str, count: int, kinds: Sequence[str] = tuple(READS), seed: int = 1
) -> Iterator[str]:
    """Of ``count`` random reads those that tell of a foreign tenant; every kind comes in turn."""
    draw = random.Random(seed)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        found = said(reads, READS[kind], draw)
        if foreign in found:
            yield f"{kind}: {found[max(0, found.index(foreign) - 80) :][:240]}"
