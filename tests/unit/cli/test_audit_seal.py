"""The commands of the trail's seal: what they print, and how they end."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.support import Ran, run_argv
from vgpumgr.audit.ecs_record import ecs_event
from vgpumgr.model.history import AuditRecord
from vgpumgr.model.sealed_trail import SealedRecord

SHIPPING = Path(__file__).parents[3] / "examples" / "audit-shipping"


class Trail:
    """A state folder of its own, with some records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "state" / "ledger.sqlite"
        for tenant in ("blue", "red", "green"):
            self.ok("quota", "set", tenant, "--vms", "1")

    def run(self, *words: str) -> Ran:
        """How a command ended."""
        return run_argv("vgpumgr", "--state-dir", str(self.folder / "state"), *words)

    def ok(self, *words: str) -> str:
        """What it printed."""
        ran = self.run(*words)
        assert ran.code == 0, ran.err
        return ran.out

    def sql(self, statement: str) -> None:
        """Tamper."""
        with closing(sqlite3.connect(self.ledger)) as raw, raw:
            raw.execute(statement)


@pytest.fixture
def trail(tmp_path: Path) -> Trail:
    return Trail(tmp_path)


def test_a_trail_is_sealed_and_verified(trail: Trail) -> None:
    assert "has sealed nothing yet" in trail.run("audit", "verify").err
    assert trail.run("audit", "checkpoint").code == 3
    assert trail.ok("audit", "seal") == "3 records sealed now\n"
    assert trail.ok("audit", "seal") == "every record was sealed\n"
    trail.ok("quota", "set", "late", "--vms", "1")
    said = trail.ok("audit", "verify")
    assert said.startswith("3 records sealed, compared with 2 signed checkpoints\n1 record not sea")
    found = json.loads(trail.ok("audit", "verify", "-o", "json"))
    assert (found["kind"], found["sealed"], found["unsealed"]) == ("TrailVerdict", 3, 1)
    assert found["wrong"] == []


def test_tampering_is_an_error_that_names_the_record(trail: Trail) -> None:
    trail.ok("audit", "seal")
    trail.sql("UPDATE audit SET by = 'somebody else' WHERE seq = 2")
    ran = trail.run("audit", "verify")
    assert ran.code == 1
    assert "the audit trail is not what was sealed: record 2 is not what was sealed" in ran.err
    assert "record 2 is not what was sealed" in ran.out
    found = trail.run("audit", "verify", "-o", "json")
    assert json.loads(found.err)["code"] == "audit.tampered"


def test_another_machine_verifies_by_key_and_checkpoint(trail: Trail) -> None:
    trail.ok("audit", "seal")
    kept, pem = trail.folder / "kept", trail.folder / "pem"
    kept.write_text(trail.ok("audit", "checkpoint"))
    key = trail.ok("audit", "checkpoint", "--public-key").strip()
    pem.write_text(trail.ok("audit", "checkpoint", "--public-key", "--pem"))
    for given in (key, str(pem)):
        said = trail.ok("audit", "verify", "--key", given, "--checkpoint", str(kept))
        assert said == "3 records sealed, compared with 2 signed checkpoints\n"
    trail.sql("DELETE FROM audit")
    trail.sql("DELETE FROM seal")
    trail.sql("DELETE FROM checkpoint")
    assert trail.run("audit", "verify", "--key", key).code == 0
    ran = trail.run("audit", "verify", "--key", key, "--checkpoint", str(kept))
    assert (ran.code, "is of 3 records, and the ledger has 0" in ran.err) == (1, True)
    assert "audit_checkpoint is of 3 records" in trail.run("audit", "verify").err


def test_a_key_that_is_none_is_a_usage_error(trail: Trail) -> None:
    trail.ok("audit", "seal")
    file = trail.folder / "file"
    file.write_text("nothing")
    assert trail.run("audit", "verify", "--key", str(file)).code == 2
    assert trail.run("audit", "verify", "--key", "a+b+c").code == 2
    assert trail.run("audit", "verify", "--key", str(trail.folder / "none")).code == 2
    ran = trail.run("audit", "verify", "--checkpoint", str(file))
    assert (ran.code, "cannot be trusted: it is not a checkpoint" in ran.err) == (1, True)


def test_an_export_goes_on_where_its_cursor_is(trail: Trail) -> None:
    cursor = trail.folder / "cursor"
    assert trail.ok("audit", "export") == ""
    trail.ok("audit", "seal")
    whole = trail.ok("audit", "export")
    first = [json.loads(line) for line in whole.splitlines()]
    assert [each["event"]["sequence"] for each in first] == [1, 2, 3]
    assert trail.ok("audit", "export", "--since", "2") == whole.splitlines(keepends=True)[2]
    assert trail.ok("audit", "export", "--cursor", str(cursor)) == whole
    assert trail.ok("audit", "export", "--cursor", str(cursor)) == ""
    trail.ok("quota", "set", "late", "--vms", "1")
    assert trail.ok("audit", "export", "--cursor", str(cursor)) == ""
    trail.ok("audit", "seal")
    [late] = trail.ok("audit", "export", "-o", "jsonl", "--cursor", str(cursor)).splitlines()
    assert json.loads(late)["event"]["sequence"] == 4
    cursor.write_text("vgpumgr/another/1 3\n")
    ran = trail.run("audit", "export", "--cursor", str(cursor))
    assert (len(ran.out.splitlines()), "exported again" in ran.err) == (4, True)
    cursor.write_text("nonsense")
    assert trail.run("audit", "export", "--cursor", str(cursor)).code == 2
    assert trail.run("audit", "export", "--cursor", str(cursor), "--since", "1").code == 2


# -- shipping ------------------------------------------------------------------------------------


def mapped(properties: dict[str, Any], at: str = "") -> dict[str, str]:
    """The type of each field of an index template, by its dotted name."""
    found: dict[str, str] = {}
    for name, it in properties.items():
        inner = it.get("properties")
        found |= mapped(inner, f"{at}{name}.") if inner else {f"{at}{name}": it["type"]}
    return found


def flat(fields: dict[str, Any], at: str = "") -> dict[str, Any]:
    """The fields of an event by their dotted names."""
    found: dict[str, Any] = {}
    for name, it in fields.items():
        found |= flat(it, f"{at}{name}.") if isinstance(it, dict) else {f"{at}{name}": it}
    return found


def test_the_index_template_maps_every_field_that_is_exported(trail: Trail) -> None:
    template = json.loads((SHIPPING / "index-template.json").read_text())
    types = mapped(template["template"]["mappings"]["properties"])
    texts = {name: name for name in AuditRecord.__dataclass_fields__}
    numbers = {"seq": 1, "at": 1.0, "before": 1, "after": 2, "units": (1,), "consumption": {}}
    record = AuditRecord(**{**texts, **numbers, "address": "192.0.2.7"})  # type: ignore[arg-type]
    taken = dict.fromkeys(
        ("vcpus", "memory_mib", "gpu.units", "gpu.memory_mib", "gpu.seconds"), 1.0
    )
    whole = SealedRecord(record=record, leaf=1, hash="h", original="o", consumption=taken)
    exported = flat(ecs_event(whole))
    assert set(exported) | {"source.address"} == set(types)
    ecs = json.loads((Path(__file__).parents[1] / "audit" / "ecs_fields.json").read_text())
    assert {name: ecs["fields"][name] for name in types if name in ecs["fields"]} == {
        name: kind for name, kind in types.items() if name in ecs["fields"]
    }


def test_filebeat_reads_the_lines_as_they_are_printed() -> None:
    settings = yaml.safe_load((SHIPPING / "filebeat.yml").read_text())
    [source] = settings["filebeat.inputs"]
    [parser] = source["parsers"]
    assert (source["type"], parser["ndjson"]["target"]) == ("filestream", "")
    [processor] = settings["processors"]
    assert processor["fingerprint"] == {"fields": ["event.hash"], "target_field": "@metadata._id"}
    assert "password" not in str(settings)
