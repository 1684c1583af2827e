"""Records as ECS events: fields and words that ECS knows, and an entry for every event there is."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from vgpumgr.audit.ecs_record import ecs_event
from vgpumgr.audit.event_classes import EVENT_CLASSES
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.console_ticket import TicketState
from vgpumgr.model.desktop import DesktopState
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.guest import GuestPhase
from vgpumgr.model.health import HealthState
from vgpumgr.model.history import AccessEvent, AuditRecord, UploadEvent
from vgpumgr.model.image import CopyState
from vgpumgr.model.notification import NOTICES
from vgpumgr.model.operation import OperationState
from vgpumgr.model.queue import QueueState
from vgpumgr.model.sealed_trail import SealedRecord
from vgpumgr.model.vm import VmState
from vgpumgr.model.vm_backup import BackupState
from vgpumgr.store.ledger import transitions

ECS = json.loads((Path(__file__).parent / "ecs_fields.json").read_text())
WORD = re.compile(r"^[a-z]+\.[a-z-]+$")


def access_words() -> Iterator[str]:
    """What `access.py` tells by its one function for it."""
    for node in ast.walk(ast.parse(Path("vgpumgr/store/ledger/access.py").read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_tell":
            yield ast.literal_eval(node.args[2])


# The events of which the code writes the beginning alone, and the words that may follow.
FOLLOWING: Mapping[str, frozenset[str]] = {
    "access.": frozenset(access_words()),
    "allocation.": frozenset(AllocationState),
    "backup.": frozenset(BackupState),
    "desktop.": frozenset({*DesktopState, "closed"}),
    "gpu.": frozenset(GpuState),
    "gpu.health-": frozenset(HealthState),
    "image.copy-": frozenset(CopyState),
    "layout.": frozenset({"reserved", "settled"}),
    "notice.": frozenset(NOTICES),
    "operation.": frozenset(OperationState),
    "pool.": frozenset({"made", "changed", "deleted"}),
    "queue.": frozenset(QueueState),
    "secret.": frozenset({"set", "removed"}),
    "session.": frozenset({"begun", "ended"}),
    "step.": frozenset(transitions._TOLD_STEPS),
    "vm.guest-": frozenset(GuestPhase),
    "task.": frozenset(transitions._TOLD_TASKS),
    "ticket.": frozenset(TicketState),
    "vm.": frozenset(VmState),
}


def written() -> Iterator[str]:
    """Every event that the store's code can write."""
    yield from (*AccessEvent, *UploadEvent)
    for path in sorted(Path("vgpumgr/store").rglob("*.py")):
        tree = ast.parse(path.read_text())
        inside = {id(part) for node in ast.walk(tree) for part in _parts(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) and _begins(node) in FOLLOWING:
                yield from (f"{_begins(node)}{word}" for word in FOLLOWING[_begins(node)])
            elif isinstance(node, ast.JoinedStr) and re.match(
                r"^[a-z]+\.(copy-|guest-|health-)?$", _begins(node)
            ):
                yield f"{_begins(node)}(a beginning that this test does not know)"
            elif isinstance(node, ast.Constant) and _is_word(node) and id(node) not in inside:
                yield str(node.value)


def _is_word(node: ast.Constant) -> bool:
    return WORD.match(str(node.value)) is not None


def _parts(node: ast.AST) -> list[ast.expr]:
    return node.values if isinstance(node, ast.JoinedStr) else []


def _begins(node: ast.JoinedStr) -> str:
    first = node.values[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def test_every_event_of_the_code_has_its_entry_and_no_entry_is_left_over() -> None:
    assert set(written()) - NO_EVENTS == set(EVENT_CLASSES)


# Words of that shape that are no events.
NO_EVENTS = {"gpu.units", "gpu.seconds", "ledger.replaced", "ledger.outcome-unknown"}


@pytest.mark.parametrize("name", sorted(EVENT_CLASSES))
def test_an_entry_is_in_words_of_ecs(name: str) -> None:
    found = EVENT_CLASSES[name]
    assert found.type in ECS["types_of_category"][found.category]
    assert found.type in ECS["allowed"]["event.type"]
    assert found.outcome in ECS["allowed"]["event.outcome"]


RECORD = AuditRecord(
    seq=7,
    at=1_795_645_113.5,
    by="root@ctl",
    event="allocation.released",
    operation="3f2b",
    task="t-1",
    vm="desk",
    host="h1",
    gpu="gpu-1",
    allocation="a-1",
    profile="T4-4Q",
    device="0000:41:00.4",
    units=(2, 3),
    before=1,
    after=1,
    detail="said",
    method="serve",
    address="192.0.2.7",
    credential="c-1",
    asked_by="ada@example.org",
    asked_tenant="blue",
)
SEALED = SealedRecord(
    record=RECORD,
    leaf=5,
    hash="ab" * 32,
    original='{"seq":7}',
    consumption={"gpu.memory_mib": 4096, "gpu.units": 2, "gpu.seconds": 12.5},
)


def fields(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of an event with their dotted names."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from fields(inner, f"{at}{name}.")
        else:
            yield f"{at}{name}", inner


def test_every_field_is_one_of_ecs_or_of_ours() -> None:
    kinds = {"keyword": str, "match_only_text": str, "date": str, "ip": str, "long": int}
    for name, value in fields(ecs_event(SEALED)):
        if name.partition(".")[0] in ECS["free"]:
            continue
        assert name in ECS["fields"], name
        is_list = isinstance(value, list)
        assert is_list == (name in ECS["arrays"]), name
        assert all(
            isinstance(each, kinds[ECS["fields"][name]]) for each in (value if is_list else [value])
        ), name
        if name in ECS["allowed"]:
            assert set(value if is_list else [value]) <= set(ECS["allowed"][name])
    assert all(each not in ECS["fields"] for each in ECS["free"])


def test_what_a_release_says() -> None:
    event: Any = ecs_event(SEALED)
    assert event["@timestamp"] == "2026-11-25T22:18:33.500Z"
    assert event["user"] == {"id": "ada@example.org", "effective": {"id": "root@ctl"}}
    assert event["organization"] == {"id": "blue"}
    assert event["source"] == {"ip": "192.0.2.7"}
    assert (event["gpu"], event["host"]) == ({"id": "gpu-1"}, {"name": "h1"})
    assert event["operation"] == {"id": "3f2b", "type": "allocation.released"}
    assert event["trace"] == {"id": "3f2b"}
    assert event["resource"] == {
        "consumption": {"gpu": {"memory_mib": 4096, "units": 2, "seconds": 12.5}}
    }
    assert event["related"] == {"user": ["ada@example.org", "root@ctl"], "hosts": ["h1"]}
    told = event["event"]
    assert (told["action"], told["category"]) == ("allocation.released", ["configuration"])
    assert (told["sequence"], told["hash"], told["original"]) == (7, "ab" * 32, '{"seq":7}')


def test_what_is_not_known_is_not_there() -> None:
    record = AuditRecord(seq=1, at=0.0, by="", event="later.event", address="a socket")
    event: Any = ecs_event(SealedRecord(record=record, leaf=0, hash="", original=""))
    assert event["event"]["outcome"] == "unknown"
    assert event["source"] == {"address": "a socket"}
    assert not {"user", "organization", "host", "gpu", "trace", "resource", "related"} & set(event)
