"""`gpu cordon`: a person holds VMs off a GPU, and is told which go on there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.inside import Inside
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.layouts.gpu_reset import RESETTING
from vgpumgr.model.role_binding import EVERY_TENANT, Role


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    world = SimWorld(tmp_path, host("T4"))
    world.engine.refresh()
    world.apply(vm("a", "T4-4Q"))
    made = Inside(tmp_path, tmp_path / "ledger.db")
    made.bind("o", Role.OPERATOR, EVERY_TENANT)
    yield made
    made.close()
    world.close()


def test_no_vm_is_placed_and_the_reason_is_said(inside: Inside) -> None:
    secret = inside.token("o", Role.OPERATOR, EVERY_TENANT)
    [gpu] = inside.ledger.gpus()
    asked = {"name": gpu.id, "reason": "its fan\nis loud"}
    said = inside.ask("POST", "/v1/gpus:cordon", secret, asked).body
    assert (said["state_why"], said["vms"]) == ("cordoned: its fan is loud", ["a"])
    assert inside.ledger.vm("a").name == "a", "it goes on"
    asked = {"text": vm_text("b"), "source": "b.yaml"}
    told = inside.ask("POST", "/v1/vms:explain", secret, asked)
    assert "its fan is loud" in told.text
    [trail] = inside.ledger.audit(event="gpu.quarantined", limit=10)
    assert (trail.by, trail.detail) == ("o", "cordoned: its fan is loud")


def test_a_reset_under_way_keeps_its_reason(inside: Inside) -> None:
    secret = inside.token("o", Role.OPERATOR, EVERY_TENANT)
    [gpu] = inside.ledger.gpus()
    inside.ledger.quarantine(gpu.id, RESETTING)
    said = inside.ask("POST", "/v1/gpus:cordon", secret, {"name": gpu.id})
    assert said.status == 409 and RESETTING in said.text
    assert inside.ledger.gpus()[0].state_why == RESETTING


def vm_text(name: str) -> str:
    return (
        f"apiVersion: vgpumgr/v1\nkind: VM\nname: {name}\nvcpus: 2\nmemory: 4GiB\n"
        "gpus: [{profile: T4-4Q}]\n"
    )
