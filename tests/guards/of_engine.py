"""The guards of the engine: whose a domain or volume is, who works on an operation."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from lxml import etree
from lxml.builder import E

from tests.guards.registry import Guard, Happened, Place, patched
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.task_run import TaskRun
from vgpumgr.engine.steps import domain_steps
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.store import open_ledger

NAME = "a"


def a_namesake_deleted(place: Place) -> None:
    """Somebody undefined our domain, and defined one of that name."""
    world = SimWorld(place.folder, host("T4"))
    world.apply(vm(NAME, "T4-4Q"))
    domains = world.sim.host("h1").domains
    domains.destroy(NAME)
    domains.undefine(NAME)
    domains.define(_stranger())
    with suppress(VgpumgrError):
        world.delete(NAME)
    left = domains.look(NAME)
    world.close()
    if left is None:
        raise Happened("a domain that another hand made was deleted")


def a_volume_deleted(place: Place) -> None:
    """A volume of the name that ours would get lies there already."""
    world = SimWorld(place.folder, host("T4"))
    numbers = count(1)
    world.engine = replace(
        world.engine, new_uuid=lambda: f"deadbeef-0000-4000-8000-{next(numbers):012}"
    )
    spec = vm(NAME, disks=(DiskSpec(size_bytes=1 << 20),))
    world.apply(spec)
    [(pool, name)] = world.ledger.vm(NAME).volumes
    storage = world.sim.host("h1").storage
    xml = storage.xml(pool, name)
    world.delete(NAME)
    storage.create(pool, xml)
    with suppress(VgpumgrError):
        world.apply(spec)
        world.delete(NAME)
    left = storage.look(pool, name)
    world.close()
    if left is None:
        raise Happened("a volume that another hand made was deleted")


def two_workers_on_one_operation(place: Place) -> None:
    """While one process makes a VM, another resumes the same operation."""
    world = SimWorld(place.folder, host("T4"), ledger=place.ledger)
    other = open_ledger(place.ledger)
    twin = replace(world.engine, ledger=other, stop=threading.Event())
    call, busy, calls = world.sim.call, False, 0

    def interfering(name: str, target: str, method: str, arguments: Mapping[str, Any]) -> Any:
        nonlocal busy, calls
        if busy:
            calls += 1
        elif (target, method) == ("domains", "define"):
            busy = True
            with suppress(VgpumgrError):
                twin.resume(other.operations(open_only=True)[0].id)
            busy = False
        return call(name, target, method, arguments)

    world.sim.call = interfering  # type: ignore[method-assign]
    with suppress(VgpumgrError):
        world.apply(vm(NAME, "T4-4Q"))
    other.close()
    world.close()
    if calls:
        raise Happened(f"two processes worked on one operation: {calls} calls of the second")


def _stranger() -> str:
    kind = E.type("hvm", arch="x86_64", machine="q35")
    size = (E.memory("262144", unit="KiB"), E.vcpu("1"))
    tree = E.domain(E.name(NAME), *size, E.os(kind), E.features(E.acpi()), type="kvm")
    return etree.tostring(tree, encoding="unicode")


GUARDS = (
    Guard(
        "mark of domains",
        "engine/steps/domain_steps.py: _belongs",
        "a stranger's domain is deleted",
        patched(domain_steps, "_belongs", lambda *_: True),
        a_namesake_deleted,
    ),
    Guard(
        "what is another's is left",
        "engine/operations/task_run.py: TaskRun._leave",
        "a stranger's volume is deleted, where ours could not be made",
        patched(TaskRun, "_leave", lambda *_: None),
        a_volume_deleted,
    ),
    Guard(
        "operation claim",
        "engine/operations/operation_lifecycle.py: _claim",
        "two processes work on one operation",
        patched(operation_lifecycle, "_claim", lambda *_: None),
        two_workers_on_one_operation,
        server_too=True,
    ),
)
