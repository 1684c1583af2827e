"""Steps in the journal: a step is known by the name of its class, each name is one step's."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest

from vgpumgr.engine import steps
from vgpumgr.engine.steps.domain_steps import StartDomain
from vgpumgr.engine.steps.step import Step, TwoHostStep, from_record, settles, to_records
from vgpumgr.model.errors import Damaged
from vgpumgr.model.operation import StepRecord


def _classes() -> list[type]:
    modules = (getattr(steps, name) for name in steps.__all__)
    return [
        each
        for module in modules
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Step | TwoHostStep) and each.__module__ == module.__name__
    ]


def test_each_name_is_one_steps() -> None:
    names = Counter(each.__name__ for each in _classes() if not inspect.isabstract(each))
    assert len(names) > 40
    assert set(names.values()) == {1}


@pytest.mark.parametrize("kind", [each for each in _classes() if not inspect.isabstract(each)])
def test_the_journal_knows_a_step_by_its_class(kind: type[Step | TwoHostStep]) -> None:
    assert settles(StepRecord(seq=0, kind=kind.__name__, args={})) is kind.settles


def test_a_step_comes_back_from_its_record() -> None:
    step = StartDomain(name="web", vm_id="1")
    [record] = to_records([step])
    assert (record.kind, from_record(record)) == ("StartDomain", step)


def test_a_record_of_no_known_step_is_damaged() -> None:
    with pytest.raises(Damaged, match="NoSuchStep"):
        from_record(StepRecord(seq=3, kind="NoSuchStep", args={}))
