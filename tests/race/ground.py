"""What is raced for: one GPU of a fake host, full but for its last slice."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select

from tests.fakes import FakeClock, FakeHost, FakeHosts
from tests.world import vm
from vgpumgr.engine.planning.vm_admission import no_placement
from vgpumgr.engine.planning.vm_plan import make_plan
from vgpumgr.engine.reservation import vm_reservations
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import Reservation
from vgpumgr.model.vm import VmSpec
from vgpumgr.store import SqlLedger, open_ledger
from vgpumgr.store.schema import gpu, host

PROFILE = "T4-4Q"
HELD = 3  # of the four that a T4 takes


def engine(url: str) -> Engine:
    """One more controller's engine: its own ledger, its own picture of the host."""
    ledger = open_ledger(url)
    return Engine(
        ledger=ledger,
        hosts=FakeHosts({"h1": FakeHost(fleet=ledger.fleet_id())}),
        lanes=SerialWorkers(),
        clock=FakeClock(),
        new_uuid=lambda: str(uuid.uuid4()),
        stop=threading.Event(),
    )


def prepare(url: str) -> Reservation:
    """Enrol the host and fill it up to the last slice; the engine's own plan for that one."""
    first = engine(url)
    first.ledger.add_host(HostRecord(name="h1", address="root@h1"))
    first.apply([vm(f"held-{number}", PROFILE) for number in range(HELD)])[1].raise_for_failure()
    template = planned(first)
    first.ledger.close()
    return template


def first_generations(url: str, template: Reservation) -> tuple[int, int]:
    """What is read before the first round."""
    ledger = open_ledger(url)
    read = generations(ledger, template)
    ledger.close()
    return read


def wanted(name: str) -> VmSpec:
    """What every client asks for."""
    return vm(name, PROFILE)


def planned(engine: Engine) -> Reservation:
    """The engine's own plan for the last slice, as it would be reserved."""
    engine.refresh()
    view = engine.view()
    plan = make_plan(view, [wanted("template")], engine.place)
    assert not plan.unplaced, plan.unplaced
    return vm_reservations.apply_reservation(plan, view, engine.opening())


def told_no(engine: Engine, name: str) -> NoPlacement | None:
    """What a loser is told when the engine plans anew; None where there is room after all."""
    plan = make_plan(engine.view(), [wanted(name)], engine.place)
    return no_placement(plan.unplaced) if plan.unplaced else None


def claimant(template: Reservation, name: str) -> Reservation:
    """The same plan of another client."""
    new = (str(uuid.uuid4()) for _ in range(5))
    operation = replace(template.operation, id=next(new))
    [owner], [taken], [task] = template.vms, template.allocations, template.tasks
    owner = replace(owner, id=next(new), spec=replace(owner.spec, name=name))
    return replace(
        template,
        operation=operation,
        vms=(owner,),
        allocations=(replace(taken, id=next(new), device=next(new), vm_id=owner.id, vm=name),),
        tasks=(replace(task, id=next(new), operation=operation.id, vm_id=owner.id, vm=name),),
    )


def planned_from(wish: Reservation, of_gpu: int, of_host: int) -> Reservation:
    """The same plan, as if the room had been seen free at these generations."""
    return replace(
        wish,
        gpu_generations=dict.fromkeys(wish.gpu_generations, of_gpu),
        host_generations=dict.fromkeys(wish.host_generations, of_host),
    )


def generations(ledger: SqlLedger, template: Reservation) -> tuple[int, int]:
    """The GPU's and the host's, as a planner reads them."""
    [key] = template.gpu_generations
    of_gpu = select(gpu.c.generation).where(gpu.c.id == key)
    of_host = select(host.c.generation).where(host.c.name == "h1")
    with ledger._database.read() as connection:
        return connection.scalar(of_gpu), connection.scalar(of_host)


def owners(ledger: SqlLedger, template: Reservation) -> Sequence[str]:
    """The VMs that hold any slot of the last slice."""
    [taken] = template.allocations
    return [
        each.vm
        for each in ledger.allocations()
        if each.gpu == taken.gpu and set(each.slots) & set(taken.slots)
    ]
