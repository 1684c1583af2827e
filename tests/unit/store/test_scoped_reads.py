"""Reads within a scope: everything of one's own, and nothing of another tenant's."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from sqlalchemy import true

from tests.ledgers import new_ledger
from tests.two_tenants import BLUE, OF_FILTERS, READS, RED, REUSED, TENANTS, TwoTenants, leaks
from vgpumgr.model.errors import InUse, NotFound
from vgpumgr.model.operation import OperationSubjects
from vgpumgr.model.role_binding import ALL_TENANTS, NO_TENANT, Scope
from vgpumgr.model.scoped_reads import ScopedReads
from vgpumgr.store.ledger.tenant_filters import FILTERS


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoTenants]:
    path = tmp_path_factory.mktemp("both") / "l"
    new_ledger(path)
    made = TwoTenants(path)
    yield made
    made.close()


def test_every_read_is_tried() -> None:
    methods = {name for name, _ in inspect.getmembers(ScopedReads, inspect.isfunction)}
    assert {each for each in methods if not each.startswith("_")} <= set(READS)


@pytest.mark.parametrize(
    "count", [300, pytest.param(3_000, marks=pytest.mark.thorough)], ids="{} reads".format
)
@pytest.mark.parametrize("tenant", TENANTS)
def test_reads_tell_nothing_of_another_tenant(both: TwoTenants, tenant: str, count: int) -> None:
    foreign = RED if tenant == BLUE else BLUE
    assert next(leaks(both.within(tenant), foreign, count), "") == ""


def test_who_has_no_tenant_reads_nothing_of_any(both: TwoTenants) -> None:
    reads = both.ledger.within(NO_TENANT)
    assert [*leaks(reads, BLUE, 240), *leaks(reads, RED, 240)] == []
    assert not (reads.vms() or reads.pools() or reads.operations() or reads.audit())


def test_on_a_server_too(pg_url: str) -> None:
    both = TwoTenants(pg_url)
    for tenant, foreign in ((BLUE, RED), (RED, BLUE)):
        assert next(leaks(both.within(tenant), foreign, 5 * len(READS)), "") == ""
        assert_own(both.within(tenant), tenant)
    both.close()


@pytest.mark.parametrize("tenant", TENANTS)
def test_each_reads_all_of_its_own(both: TwoTenants, tenant: str) -> None:
    assert_own(both.within(tenant), tenant)


def assert_own(reads: ScopedReads, mark: str) -> None:
    names = {f"{mark}-vm", f"{mark}-desk"} | ({REUSED} if mark == BLUE else set())
    assert {each.name for each in reads.vms()} == names
    assert {each.name for each in reads.vms("h1")} == names
    assert reads.vm(f"{mark}-vm").spec.tenant == mark
    assert [each.vm for each in reads.allocations()] == [f"{mark}-vm"]
    assert [each.spec.name for each in reads.pools()] == [f"{mark}-pool"]
    assert [each.name for each in reads.desktops()] == [f"{mark}-desk"]
    assert [each.user for each in reads.pool_sessions(f"p-{mark}", 9)] == [f"{mark}-user"]
    assert [each.ask.user for each in reads.pool_asks()] == [f"{mark}-asks"]
    assert [each.id for each in reads.bookings()] == [f"b-{mark}"]
    assert [each.id for each in reads.logoff_moves()] == [f"m-{mark}"]
    assert f"q-{mark}" in {each.id for each in reads.queue()}
    assert [each.tenant for each in reads.quotas()] == [mark]
    assert [each.name for each in reads.secrets()] == [f"{mark}-key"]
    assert [each.name for each in reads.webhooks()] == [f"{mark}-hook"]
    assert f"{mark}-no" in {each.vm for each in reads.requests()}
    assert [each.id for each in reads.tickets()] == [f"t-{mark}"]
    shared, *own = sorted(reads.operations(), key=lambda each: each.id != "op-shared")
    assert (shared.id, shared.summary, shared.by) == ("op-shared", "", "operator")
    assert all(each.id.startswith(f"op-{mark}") for each in own) and own
    assert [each.vm for each in reads.tasks("op-shared")] == [f"{mark}-vm"]
    subjects = reads.operation_subjects(["op-shared", "op-none"])
    assert subjects == {"op-shared": OperationSubjects((f"{mark}-vm",), 1)}
    assert {"vm.reserved", "queue.waiting", "ticket.asked", "session.begun"} <= {
        each.event for each in reads.audit()
    }
    [host] = reads.hosts()
    assert host.facts is not None and {each.name for each in host.facts.domains} == names
    assert host.last_error == "the last look at it failed"
    assert (host.address, host.facts.claims, host.facts.boot_id) == ("", (), "")
    assert host.facts.cpus == 16


def test_a_name_that_two_had_is_told_of_to_each_for_its_time(both: TwoTenants) -> None:
    of_blue, of_red = (both.within(each).audit(vm=REUSED) for each in (BLUE, RED))
    assert {each.event for each in of_red} >= {"vm.reserved", "vm.deleted"}
    assert {each.event for each in of_blue} >= {"vm.reserved"}
    assert max(each.at for each in of_red) < min(each.at for each in of_blue)


def test_what_is_another_tenants_is_not_found_as_what_is_not_there(both: TwoTenants) -> None:
    reads = both.within(BLUE)
    for look in (reads.vm, reads.pool, reads.operation):
        texts = []
        for asked in (f"{RED}-vm", f"{RED}-pool", f"op-{RED}", "no-such-thing"):
            with pytest.raises(NotFound) as caught:
                look(asked)
            error = caught.value
            texts.append((error.message.replace(asked, "X"), error.next.partition(" show ")[0]))
            assert RED not in error.why
        assert len({message for message, _ in texts}) == 1
    with pytest.raises(NotFound, match="yet"):
        reads.vm(f"{BLUE}-q")
    with pytest.raises(NotFound, match="no VM"):
        reads.vm(f"{RED}-q")


def test_all_tenants_read_as_the_ledger_itself(both: TwoTenants) -> None:
    ledger, reads = both.ledger, both.ledger.within(ALL_TENANTS)
    for each in ("vms", "allocations", "pools", "desktops", "pool_asks", "bookings", "queue",
                 "logoff_moves", "quotas", "requests", "tickets", "operations", "audit", "hosts",
                 "gpus", "images"):  # fmt: skip
        assert getattr(reads, each)() == getattr(ledger, each)(), each
    assert reads.tasks("op-shared") == ledger.tasks("op-shared")
    text = f"{RED}-vm is in the way"
    assert reads.redacted(text) == text


def test_several_tenants_are_read_together(both: TwoTenants) -> None:
    reads = both.ledger.within(Scope(frozenset(TENANTS)))
    assert reads.vms() == both.ledger.vms()
    assert len(reads.tasks("op-shared")) == 2


def test_errors_are_redacted(both: TwoTenants) -> None:
    error = InUse(
        f"the GPU is taken by {RED}-vm", why=f"{BLUE}-vm was late", next=f"vm show {RED}-vm"
    )
    clean = both.within(BLUE).redacted(error)
    assert type(clean) is InUse
    assert clean.as_dict() == {
        **error.as_dict(),
        "message": "the GPU is taken by (another tenant's)",
        "next": "",
    }
    assert str(clean) == clean.message


@pytest.mark.parametrize("kind", sorted(FILTERS))
def test_without_any_one_filter_something_is_told(
    both: TwoTenants, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filters are needed, and the reads above reach each of them."""
    monkeypatch.setitem(FILTERS, kind, lambda _: true())
    assert next(leaks(both.within(BLUE), RED, 60, [OF_FILTERS[kind]]), "")
