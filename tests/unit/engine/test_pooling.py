"""What a desktop's VM says of its row, and what an action makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.poolsim import DESKTOP, OLD, spec
from vgpumgr.engine.desktops.desktop_state import (
    DesktopReading,
    desktop_spec,
    failed,
    hosts_to_ask_again,
    row_after,
    updated_rows,
)
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.desktop import (
    Desktop,
    DesktopRecord,
    DesktopSession,
    DesktopState,
    DesktopVerb,
    PoolAction,
    PoolRecord,
)
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.host import HostFacts, HostRecord, Versions
from vgpumgr.model.pool import PoolKind
from vgpumgr.model.vm import VmRecord, VmState

NOW = 1000.0
S = DesktopState
POOL = PoolRecord(id="p-1", spec=spec(), created_at=0.0)
ADA = DesktopSession(user="ada", since=500.0, active=500.0)


def row(state: S, doing: DesktopVerb | None = None, **fields: object) -> DesktopRecord:
    it = Desktop(name="cad-01", state=state, image=OLD, since=500.0, host="h1")
    values = {"id": "d-1", "pool": "p-1", "desktop": it, "doing": doing, "vm_id": "vm-1"}
    return DesktopRecord(**(values | fields))  # type: ignore[arg-type]


def seen(
    state: VmState | None = VmState.ACTIVE,
    *,
    runs: bool = True,
    answers: bool = True,
    busy: bool = False,
) -> DesktopReading:
    """One host, and the VM in this state there, if it is there at all."""
    domain = DomainFacts(
        name="cad-01",
        uuid="u",
        state=DomainState.RUNNING if runs else DomainState.SHUTOFF,
        autostart=False,
        persistent=True,
    )
    facts = HostFacts(
        host="h1",
        boot_id="b",
        hostname="h1",
        versions=Versions(),
        cpus=1,
        memory_mib=1,
        iommu=True,
        kvm=True,
        domains=(domain,),
    )
    host = HostRecord(
        name="h1", address="sim://h1", facts=facts, last_error="" if answers else "no route"
    )
    vm = VmRecord(
        id="vm-1",
        spec=replace(DESKTOP, name="cad-01"),
        host="h1",
        state=state or VmState.ACTIVE,
        running=True,
        generation=1,
    )
    vms = () if state is None else (vm,)
    view = LedgerView(fleet="f", hosts=(host,), gpus=(), vms=vms, allocations=())
    return DesktopReading(view, {"vm-1"} if busy else set(), NOW)


def become(before: DesktopRecord, what: DesktopReading) -> DesktopRecord:
    """The row after a look; the same where nothing is to be changed."""
    return next(iter(updated_rows([before], what)), before)


@pytest.mark.parametrize(
    ("before", "what", "state", "doing"),
    [
        (row(S.CREATING, DesktopVerb.CREATE), seen(), S.READY, None),
        (row(S.CREATING, DesktopVerb.CREATE, vm_id=""), seen(None), S.CREATING, DesktopVerb.CREATE),
        (row(S.CREATING, DesktopVerb.CREATE), seen(None), S.FAILED, None),
        (
            row(S.CREATING, DesktopVerb.CREATE),
            seen(VmState.RESERVED, busy=True),
            S.CREATING,
            DesktopVerb.CREATE,
        ),
        (
            row(S.CREATING, DesktopVerb.CREATE),
            seen(busy=True, answers=False),
            S.UNKNOWN,
            DesktopVerb.CREATE,
        ),
        (row(S.UNKNOWN, DesktopVerb.CREATE), seen(busy=True), S.CREATING, DesktopVerb.CREATE),
        (row(S.CREATING, DesktopVerb.RECREATE), seen(), S.CREATING, DesktopVerb.RECREATE),
        (row(S.CREATING, DesktopVerb.RECREATE), seen(None), S.CREATING, DesktopVerb.RECREATE),
        (row(S.LEAVING, DesktopVerb.DELETE), seen(), S.LEAVING, DesktopVerb.DELETE),
        (row(S.LEAVING, DesktopVerb.SHELVE), seen(VmState.SHELVED), S.SHELVED, None),
        (row(S.CREATING, DesktopVerb.START), seen(VmState.SHELVED), S.CREATING, DesktopVerb.START),
        (row(S.CREATING, DesktopVerb.HEAL), seen(runs=False), S.CREATING, DesktopVerb.HEAL),
        (row(S.CREATING, DesktopVerb.HEAL), seen(), S.READY, None),
        (row(S.READY), seen(runs=False), S.FAILED, None),
        (row(S.READY), seen(answers=False), S.UNKNOWN, None),
        (row(S.READY), seen(VmState.MIGRATING, runs=False), S.READY, None),
        (row(S.UNKNOWN), seen(), S.READY, None),
        (row(S.READY), seen(VmState.SHELVED), S.SHELVED, None),
    ],
)
def test_the_row_follows_the_vm(
    before: DesktopRecord, what: DesktopReading, state: S, doing: DesktopVerb | None
) -> None:
    after = become(before, what)
    assert (after.desktop.state, after.doing, after.closed_at) == (state, doing, None)
    assert updated_rows([after], what) == [], "a look finds nothing more"


@pytest.mark.parametrize("before", [row(S.LEAVING, DesktopVerb.DELETE), row(S.READY)])
def test_one_whose_vm_is_gone_is_gone(before: DesktopRecord) -> None:
    assert become(before, seen(None)).closed_at == NOW


def test_failures_are_counted_until_it_is_ready() -> None:
    broken = row(S.FAILED)
    broken = replace(broken, desktop=replace(broken.desktop, failures=2))
    again = replace(
        broken, doing=DesktopVerb.HEAL, desktop=replace(broken.desktop, state=S.CREATING)
    )
    assert failed(again, NOW, "no").desktop.failures == 3
    assert become(again, seen()).desktop.failures == 0
    start = row(S.CREATING, DesktopVerb.START)
    assert failed(start, NOW, "no room").desktop.state is S.SHELVED


def test_a_host_is_asked_once_more_before_its_guest_is_called_dead() -> None:
    assert hosts_to_ask_again([row(S.READY)], seen(runs=False)) == {"h1"}
    assert hosts_to_ask_again([row(S.READY)], seen(answers=False)) == frozenset()


def test_an_action_is_taken_on_what_was_seen_alone() -> None:
    ready = row(S.READY)
    delete = PoolAction(do=DesktopVerb.DELETE, desktop="cad-01", why="too many", seen=ready.desktop)
    done = row_after(delete, POOL, ready, NOW, "x")
    assert done is not None
    assert (done.desktop.state, done.doing, done.why) == (S.LEAVING, DesktopVerb.DELETE, "too many")
    hers = replace(ready, desktop=replace(ready.desktop, session=ADA))
    assert row_after(delete, POOL, hers, NOW, "x") is None
    assert row_after(delete, POOL, None, NOW, "x") is None
    create = PoolAction(do=DesktopVerb.CREATE, desktop="cad-01", why="more", image=OLD)
    assert row_after(create, POOL, ready, NOW, "x") is None


def test_who_comes_back_finds_the_same_session() -> None:
    left = row(S.READY)
    left = replace(left, desktop=replace(left.desktop, session=replace(ADA, disconnected=600.0)))
    back = PoolAction(
        do=DesktopVerb.ASSIGN, desktop="cad-01", why="", seen=left.desktop, user="ada"
    )
    found = row_after(back, POOL, left, NOW, "")
    assert found is not None
    assert found.desktop.session == replace(ADA, active=NOW)
    free = row(S.READY)
    first = replace(back, seen=free.desktop)
    dedicated = replace(POOL, spec=spec(kind=PoolKind.DEDICATED))
    owned = row_after(first, dedicated, free, NOW, "")
    assert owned is not None
    assert (owned.desktop.owner, owned.desktop.stained) == ("ada", True)


def test_an_image_that_the_ledger_lacks_is_a_volume() -> None:
    made = desktop_spec(spec(), "cad-07", "cad@2", ())
    assert (made.name, made.disks[0].image) == ("cad-07", "cad@2.qcow2")
