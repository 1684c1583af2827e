"""Who may ask for what: each route by each role, place and login, against the access tables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from unittest import mock

import pytest

from tests.api.matrix import Asker, cases, idle_api, wrong
from tests.api.needed import FOR_ALL_TENANTS, OTHERS, VERBS, permissions
from vgpumgr.access.command_permissions import COMMAND_PERMISSIONS
from vgpumgr.access.permission import Permission
from vgpumgr.api import worker
from vgpumgr.endpoints.registry import ENDPOINTS


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    with idle_api(tmp_path_factory.mktemp("matrix")) as inside:
        yield Asker(inside)


def test_an_endpoint_needs_what_its_command_does() -> None:
    needed = {name: each.permission for name, each in ENDPOINTS.items()}
    assert {name: permissions().get(name, "not said") for name in needed} == needed


def test_what_is_written_of_endpoints_is_of_endpoints() -> None:
    assert {*OTHERS, *VERBS.values(), *FOR_ALL_TENANTS} <= set(ENDPOINTS)
    assert set(VERBS) <= set(COMMAND_PERMISSIONS)
    assert {name for name, each in ENDPOINTS.items() if not each.scoped} == FOR_ALL_TENANTS


def test_there_are_many_cases() -> None:
    assert len(cases()) >= 5000


@pytest.mark.parametrize(
    "count",
    [
        300,
        pytest.param(1500, marks=pytest.mark.thorough),
        pytest.param(0, marks=pytest.mark.release),
    ],
    ids=["some", "more", "all"],
)
def test_every_route_is_as_the_tables_say(asker: Asker, count: int) -> None:
    every = cases()
    assert wrong(asker, random.Random(count).sample(every, count) if count else every) == []


def test_without_the_refusals_it_is_not(asker: Asker) -> None:
    some = [
        each
        for each in cases()
        if each.login == "good" and each.place == "blue" and each.endpoint in FOR_ALL_TENANTS
    ]
    with mock.patch.object(worker, "require_scoped", lambda _: None):
        told = wrong(asker, some)
    assert any("host.vms" in each for each in told)


def test_no_permission_is_forgotten() -> None:
    assert {each for each in permissions().values() if each} <= set(Permission)
