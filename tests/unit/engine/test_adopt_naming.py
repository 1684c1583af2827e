"""A domain whose name no VM of ours can have is told the name that it may take."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.engine.adoption.candidate import fault_of
from vgpumgr.model.vm import NAME


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("Win 10", "virsh domrename 'Win 10' win-10"),
        ("_db__1_", "virsh domrename _db__1_ db-1"),
        ("数据", "virsh domrename '数据' vm"),
        ("web", "virsh domrename web web-3"),
    ],
)
def test_the_rename_that_helps_is_told(name: str, command: str) -> None:
    fault = fault_of(name, {"web", "web-2"}, {name})
    assert fault.removesuffix(")").endswith(command.removeprefix("virsh "))


def test_a_good_name_has_no_fault() -> None:
    assert fault_of("desk-17", {"web"}, {"desk-17"}) == ""


@given(name=st.text(min_size=1, max_size=80), vms=st.sets(st.sampled_from(["vm", "a", "b-2"])))
def test_the_name_told_is_one_that_can_be_adopted(name: str, vms: set[str]) -> None:
    fault = fault_of(name, vms, {name})
    if fault:
        offered = fault.removesuffix(")").rpartition(" ")[2]
        assert re.fullmatch(NAME, offered)
        assert fault_of(offered, vms, {offered}) == ""
