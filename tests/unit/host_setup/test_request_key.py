"""The key that a task's attempts have, and what the last of them tells."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import pytest

from vgpumgr.app.bootstrap.variables import collection_folder


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    file = collection_folder() / "plugins" / "action" / "request_key.py"
    spec = importlib.util.spec_from_file_location("request_key", file)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


CUT: dict[str, Any] = {"failed": True, "changed": True, "settled": False}
REFUSED: dict[str, Any] = {"failed": True, "changed": False, "settled": True}
NOT_ASKED: dict[str, Any] = {"failed": True, "changed": False, "settled": None}
KILLED: dict[str, Any] = {"failed": True, "msg": "MODULE FAILURE"}
NOTHING: dict[str, Any] = {"changed": False, "settled": None}
DONE: dict[str, Any] = {"changed": True, "settled": True}


@pytest.mark.parametrize("first", [CUT, NOT_ASKED, KILLED])
def test_an_attempt_after_one_whose_end_is_not_known_has_its_key(
    plugin: ModuleType, first: dict[str, Any]
) -> None:
    attempts = plugin.Attempts()
    key = attempts.key
    attempts.after(dict(first))
    assert attempts.key == key


@pytest.mark.parametrize("first", [REFUSED, DONE, NOTHING])
def test_an_attempt_after_one_that_has_ended_is_a_new_request(
    plugin: ModuleType, first: dict[str, Any]
) -> None:
    attempts = plugin.Attempts()
    key = attempts.key
    attempts.after(dict(first))
    assert attempts.key != key


def test_what_an_attempt_had_begun_is_a_change_of_the_task(plugin: ModuleType) -> None:
    attempts = plugin.Attempts()
    attempts.after(dict(CUT))
    attempts.after(dict(NOT_ASKED))
    assert attempts.after(dict(NOTHING))["changed"] is True
    assert attempts.after(dict(NOTHING))["changed"] is False
