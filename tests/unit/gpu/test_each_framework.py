"""A framework cannot be forgotten: each is wherever a way of giving a VM a GPU has to be."""

from __future__ import annotations

import pytest

from vgpumgr.engine.drift import device_drift
from vgpumgr.gpu import framework
from vgpumgr.model.gpu import Framework
from vgpumgr.spec import json_schema

EACH = pytest.mark.parametrize("name", list(Framework))


@EACH
def test_each_framework_has_its_life_cycle(name: Framework) -> None:
    for part in ("offers", "realise", "look", "holds", "release", "adopt", "describe"):
        assert callable(getattr(framework(name), part))


def test_a_file_may_ask_for_each_framework() -> None:
    asked = json_schema("VM")["$defs"]["GpuModel"]["properties"]["framework"]["enum"]
    assert set(asked) == {"any", *Framework}


@EACH
def test_drift_looks_at_the_devices_of_each_framework(name: Framework) -> None:
    assert name in device_drift._CHECKS
