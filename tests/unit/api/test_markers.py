"""A tenant is told nothing of another one, by no answer, error or event."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.api.markers import BY_NAME, BY_NAMES, GETS, BlueAsks, blue_asks
from tests.two_tenants import BLUE, OPERATOR, RED
from vgpumgr.model.role_binding import EVERY_TENANT, Role


@pytest.fixture(scope="module")
def asks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlueAsks]:
    with blue_asks(tmp_path_factory.mktemp("markers")) as made:
        yield made


@pytest.mark.parametrize(
    "count", [120, pytest.param(3000, marks=pytest.mark.release)], ids="{} asks".format
)
def test_no_answer_tells_of_another_tenant(asks: BlueAsks, count: int) -> None:
    assert [told for told in (asks.leak() for _ in range(count)) if told] == []
    assert max(status for _, status in asks.statuses) < 500


def test_no_event_tells_of_another_tenant(asks: BlueAsks) -> None:
    told = asks.inside.events(asks.secret, 0, 12)
    assert len(told) > 5 and BLUE in "".join(told)
    assert RED not in "".join(told)


def test_who_sees_all_tenants_is_told_of_all(asks: BlueAsks) -> None:
    asks.inside.bind(OPERATOR, Role.OPERATOR, EVERY_TENANT)
    secret = asks.inside.token(OPERATOR, Role.OPERATOR, EVERY_TENANT)
    for each in ("/v1/vms", "/v1/map", "/v1/pools", "/v1/queue", "/v1/bookings", "/v1/audit"):
        assert RED in asks.inside.ask("GET", each, secret).text, each
    assert RED in "".join(asks.inside.events(secret, 0, 40))


@pytest.mark.parametrize("path", [e.path for e in GETS if "{" in e.path and "gpus" not in e.path])
def test_what_is_another_tenants_is_not_found_as_what_is_not_there(
    asks: BlueAsks, path: str
) -> None:
    parts = ("vm", "q", "pool", "desk") if "operations" not in path else ("op",)
    told = set()
    for part in parts:
        for name in (f"{RED}-{part}", f"op-{RED}-1", "no-such"):
            said = asks.inside.ask("GET", "/v1" + re.sub(r"{\w+}", name, path), asks.secret)
            told.add((said.status, said.body["message"].replace(name, "IT")))
    assert len(told) == 1 and next(iter(told))[0] == 404


@pytest.mark.parametrize("path", BY_NAMES)
def test_nothing_of_another_tenant_is_changed(asks: BlueAsks, path: str) -> None:
    def told(name: str) -> tuple[int, str]:
        said = asks.inside.ask("POST", f"/v1{path}", asks.secret, {"names": [name]})
        return said.status, said.body["message"].replace(name, "IT")

    before = asks.inside.ledger.vms(), asks.inside.ledger.queue()
    name = f"{RED}-q" if "queue" in path else f"{RED}-vm"
    assert told(name) == told("no-such") and told(name)[0] == 404
    assert (asks.inside.ledger.vms(), asks.inside.ledger.queue()) == before


@pytest.mark.parametrize("path", BY_NAME)
def test_nothing_of_another_tenant_is_acted_on(asks: BlueAsks, path: str) -> None:
    def told(name: str) -> tuple[int, str]:
        place = "/v1" + path.replace("{name}", name)
        said = asks.inside.ask("POST", place, asks.secret, BY_NAME[path])
        return said.status, said.body["message"].replace(name, "IT")

    name = f"op-{RED}" if "operations" in path else f"{RED}-pool"
    assert told(name) == told("no-such") and told(name)[0] == 404


def test_an_operation_on_several_tenants_vms_is_an_operators(asks: BlueAsks) -> None:
    for verb in ("resume", "undo"):
        said = asks.inside.ask("POST", f"/v1/operations/op-shared:{verb}", asks.secret, {})
        assert (said.status, said.body["code"]) == (403, "not-permitted.role")


def test_hosts_are_asked_for_own_vms_alone(asks: BlueAsks) -> None:
    assert asks.inside.ask("GET", f"/v1/vms/{RED}-vm/xml", asks.secret).status == 404
    assert asks.inside.ask("DELETE", f"/v1/bookings/b-{RED}", asks.secret).status == 404


@pytest.mark.parametrize("path", ["/vms:explain", "/pools:plan"])
@pytest.mark.parametrize(
    ("name", "tenant", "status"), [(f"{RED}-vm", BLUE, 409), ("new", RED, 403), ("new", "", 0)]
)
def test_documents_are_of_the_own_tenant(
    asks: BlueAsks, path: str, name: str, tenant: str, status: int
) -> None:
    kind = "Pool" if "pools" in path else "VM"
    if kind == "Pool" and name.endswith("-vm"):
        name = f"{RED}-pool"
    more = "image: cad@1\nentitlement: {groups: [all]}\nmin: 1\nmax: 2\n" if kind == "Pool" else ""
    text = (
        f"apiVersion: vgpumgr/v1\nkind: {kind}\nname: {name}\nmemory: 1GiB\nvcpus: 1\n{more}"
        f"gpus: [{{profile: T4-4Q}}]\n{f'tenant: {tenant}' if tenant else ''}\n"
    )
    said = asks.inside.ask("POST", f"/v1{path}", asks.secret, {"text": text, "source": "f"})
    assert (said.status == status) if status else said.status == 200, said.text
