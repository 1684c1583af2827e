"""What is done about a GPU: by its class, once nothing speaks against it, and never in masses."""

from __future__ import annotations

import pytest

from vgpumgr.health.health_policy import (
    DEFAULT_ACTIONS,
    GpuSituation,
    HealthAction,
    HealthPolicy,
    due,
    parse_actions,
    too_many,
)
from vgpumgr.model.health import ActionClass, Evidence, HealthRecord

TELL, CORDON, DRAIN, EVACUATE, RESET = (
    HealthAction.TELL,
    HealthAction.CORDON,
    HealthAction.DRAIN,
    HealthAction.EVACUATE,
    HealthAction.RESET,
)


def situation(asks: ActionClass, *, vms: int = 0, quarantined: bool = False) -> GpuSituation:
    signal = Evidence(signal="x", asks=asks, text="x", standing=True, since=0.0, last=0.0)
    return GpuSituation(health=HealthRecord(evidence=(signal,)), quarantined=quarantined, vms=vms)


def next_of(text: str, asks: ActionClass, **fields: object) -> HealthAction | None:
    policy = HealthPolicy(actions=parse_actions(text))
    return due(policy, situation(asks, **fields))  # type: ignore[arg-type]


def test_by_default_what_a_reset_cures_is_reset_once_it_is_empty() -> None:
    for asks in (ActionClass.RESET, ActionClass.RESET_WHEN_IDLE):
        assert next_of("", asks, vms=1) is None
        assert next_of("", asks) is RESET
    assert next_of("", ActionClass.REPLACE, vms=1) is DRAIN
    assert next_of("", ActionClass.REPLACE) is None
    for asks in (ActionClass.CHECK, ActionClass.UNREAD, ActionClass.RESTART_HOST, ActionClass.LOST):
        assert next_of("", asks, vms=1) is None
        assert next_of("", asks) is None


def test_one_thing_after_the_other() -> None:
    text = "reset=cordon+drain+reset"
    assert next_of(text, ActionClass.RESET, vms=2) is CORDON
    assert next_of(text, ActionClass.RESET, vms=2, quarantined=True) is DRAIN
    assert next_of(text, ActionClass.RESET, quarantined=True) is None, "a person has it"
    assert next_of("reset=drain+reset", ActionClass.RESET, vms=1) is DRAIN
    assert next_of("reset=drain+reset", ActionClass.RESET) is RESET
    assert next_of("lost=evacuate", ActionClass.LOST, vms=1) is EVACUATE
    assert next_of("lost=drain+evacuate", ActionClass.LOST, vms=1) is EVACUATE


def test_a_gpu_that_a_vm_uses_is_never_to_be_reset() -> None:
    for asks in ActionClass:
        for vms in (1, 2):
            policy = HealthPolicy(actions=dict.fromkeys(ActionClass, (RESET,)))
            assert due(policy, situation(asks, vms=vms)) is None


def test_what_is_set_stands_over_the_defaults() -> None:
    found = parse_actions("replace=evacuate, check=drain  reset=tell")
    assert found[ActionClass.REPLACE] == (EVACUATE,)
    assert found[ActionClass.CHECK] == (DRAIN,)
    assert found[ActionClass.RESET] == (TELL,)
    assert found[ActionClass.RESET_WHEN_IDLE] == DEFAULT_ACTIONS[ActionClass.RESET_WHEN_IDLE]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("reset", "CLASS=ACTION"),
        ("rest=drain", "CLASS=ACTION"),
        ("reset=dance", "'dance' is not an action"),
        ("guest=drain", "nothing follows"),
        ("lost=reset", "a reset does not help"),
        ("restart-host=drain+reset", "a reset does not help"),
        ("replace=reset", "a reset does not help"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_actions(text)


@pytest.mark.parametrize(
    ("out", "gpus", "many"),
    [(1, 1, False), (2, 2, False), (3, 8, True), (3, 30, False), (10, 100, False), (11, 100, True)],
)
def test_a_fault_of_many_is_not_of_the_boards(out: int, gpus: int, many: bool) -> None:
    assert too_many(out, gpus) is many
