"""The JSON Schema says the same as the loader, as far as a schema can."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from vgpumgr.model.errors import UsageError
from vgpumgr.spec import SpecError, json_schema, load

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
KINDS = ("VM", "Host", "Layout", "Pool", "Fleet")


@cache
def validator(kind: str) -> Draft202012Validator:
    """A validator of one kind's schema."""
    return Draft202012Validator(json_schema(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_valid_draft_2020_12(kind: str) -> None:
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (schema["title"], schema["additionalProperties"]) == (kind, False)
    assert {"apiVersion", "kind", "name"} <= set(schema["required"])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_validate(example: Path) -> None:
    for document in yaml.safe_load_all(example.read_text()):
        validator(document["kind"]).validate(document)


@pytest.mark.parametrize(
    "body",
    [
        {"gpu": []},
        {"name": "Upper"},
        {"vcpus": 0},
        {"vcpus": "2"},
        {"memory": 8},
        {"memory": "8GB"},
        {"numa": "requires"},
        {"gpus": [{"count": 1}]},
        {"gpus": [{"profile": "T4-4Q", "count": 17}]},
        {"gpus": [{"memory": "8GiB", "profile": "T4-4Q"}]},
        {"gpus": [{"memory": "8GiB", "framework": "vf"}]},
        {"disks": [{}]},
        {"disks": [{"size": "1GiB", "image": "x"}]},
        {"disks": [{"mode": "overlay"}]},
        {"networks": [{}]},
        {"networks": [{"bridge": "a", "network": "b"}]},
        {"networks": [{"bridge": "<a/>"}]},
        {"labels": {"a": 1}},
        {"queue": {"priority": "urgent"}},
        {"queue": {"runtime": "4 hours"}},
        {"apiVersion": "v2"},
    ],
    ids=str,
)
def test_what_the_schema_refuses_the_loader_refuses_too(body: dict[str, Any]) -> None:
    document = {"apiVersion": "vgpumgr/v1", "kind": "VM", "name": "a", **body}
    assert not validator("VM").is_valid(document)
    with pytest.raises(SpecError):
        load(yaml.safe_dump(document), "f.yaml")


@pytest.mark.parametrize(
    "body",
    [
        {"gpus": [{"memory": "8GiB", "framework": "any"}]},
        {"gpus": [{"profile": "1g.10gb", "frame_rate_limiter": True}]},
    ],
    ids=str,
)
def test_what_the_loader_takes_the_schema_takes_too(body: dict[str, Any]) -> None:
    document = {"apiVersion": "vgpumgr/v1", "kind": "VM", "name": "a", **body}
    validator("VM").validate(document)
    assert load(yaml.safe_dump(document), "f.yaml").vms


@pytest.mark.parametrize(
    ("body", "good"),
    [
        ({"gpus": [{"vfs": "max"}]}, True),
        (
            {
                "gpus": [
                    {"model": "A30", "mig": True},
                    {"model": ["T4"], "scheduler": "equal-share"},
                ]
            },
            True,
        ),
        ({"gpus": [{"devices": ["0000:41:00.0"], "vfs": 0}]}, True),
        ({"gpus": []}, False),
        ({"gpus": [{}]}, False),
        ({"gpus": [{"model": "A30"}]}, False),
        ({"gpus": [{"vfs": "all"}]}, False),
        ({"gpus": [{"vfs": -1}]}, False),
        ({"gpus": [{"mig": "on"}]}, False),
        ({"gpus": [{"devices": ["41:00.0"], "mig": True}]}, False),
        ({"gpus": [{"instances": [{"count": 1}]}]}, False),
        ({"gpus": [{"instances": [{"profile": "1g.10gb", "count": 17}]}]}, False),
        ({"gpus": [{"scheduler": "fair"}]}, False),
        ({"gpus": [{"mig": True}], "host_labels": {"a": "b"}}, False),
        ({"gpus": [{"mig": True}], "hosts": []}, False),
    ],
    ids=str,
)
def test_the_schema_of_a_layout_says_what_the_loader_says(body: dict[str, Any], good: bool) -> None:
    document = {"apiVersion": "vgpumgr/v1", "kind": "Layout", "name": "a", "hosts": ["h"], **body}
    assert validator("Layout").is_valid(document) is good
    try:
        loaded = bool(load(yaml.safe_dump(document), "f.yaml").layouts)
    except SpecError:
        loaded = False
    assert loaded is good


def test_an_unknown_kind_has_no_schema() -> None:
    with pytest.raises(UsageError, match="no schema for kind Vm") as caught:
        json_schema("Vm")
    assert "did you mean VM?" in caught.value.why
