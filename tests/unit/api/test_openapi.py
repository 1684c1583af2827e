"""The description of the API: as it is kept in the tree, growing only, with a permission each."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

import pytest

from tools.write_openapi import TARGET, described, shrunk, text
from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.registry import ENDPOINTS


@functools.cache
def description() -> dict[str, Any]:
    return described()


def operations(description: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for path in description["paths"].values() for each in path.values()]


def test_the_description_in_the_tree_is_the_api_s() -> None:
    assert TARGET.read_text() == text(description()), "python tools/write_openapi.py"


def test_every_operation_needs_a_permission() -> None:
    needed = {each["operationId"]: each["x-permission"] for each in operations(description())}
    open_to_all = {name for name, permission in needed.items() if not permission}
    assert open_to_all == {
        *("login.begin", "login.poll", "login.password", "login.end"),
        *("auth.whoami", "auth.session.list", "auth.session.end"),
    }
    assert set(needed.values()) - {""} <= set(Permission)
    assert {
        name: str(each.permission or "") for name, each in ENDPOINTS.items()
    }.items() <= needed.items()


def test_every_failure_is_a_problem() -> None:
    for each in operations(description()):
        for status, answer in each["responses"].items():
            if status >= "400":
                assert list(answer["content"]) == ["application/problem+json"], each["operationId"]


def changed(*path: str, value: Any = None) -> list[str]:
    before = json.loads(TARGET.read_text())
    after = copy.deepcopy(before)
    at = after
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return shrunk(before, after)


SCHEMAS = ("components", "schemas")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("paths", "/v1/vms"), None),
        (("paths", "/v1/vms:stop", "post"), None),
        ((*SCHEMAS, "StopVms", "properties", "force"), None),
        ((*SCHEMAS, "StopVms", "required"), ["names", "force"]),
        ((*SCHEMAS, "VmItem", "properties", "name"), None),
        ((*SCHEMAS, "VmItem", "properties", "vcpus", "type"), "string"),
    ],
)
def test_what_is_gone_or_narrower_is_told(path: tuple[str, ...], value: Any) -> None:
    assert changed(*path, value=value)


def test_what_is_new_is_not_told() -> None:
    assert changed(*SCHEMAS, "StopVms", "properties", "more", value={"type": "string"}) == []


def test_components_have_names_of_their_own() -> None:
    names = description()["components"]["schemas"]
    assert [each for each in names if "__" in each or each.endswith(("-Input", "-Output"))] == []
