"""Every key of a document has a sentence, a unit where it counts, and an example that is accepted;
the pages of keys in docs/ are up to date.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vgpumgr.model.flavour import Flavour
from vgpumgr.spec import json_schema, load
from vgpumgr.spec.document_schema import KEYS
from vgpumgr.spec.spec_file import SpecFindings, trees

ROOT = Path(__file__).parents[3]
# The least document of each kind, to which the line of an example is added.
LEAST: dict[str, dict[str, Any]] = {
    "VM": {"name": "a", "gpus": [{"profile": "A40-8Q"}]},
    "Layout": {"name": "a", "hosts": ["gpu-a"], "gpus": [{"vfs": "max"}]},
    "Pool": {
        "name": "a",
        "image": "cad@12",
        "gpus": [{"profile": "T4-4Q"}],
        "entitlement": {"users": ["ada"]},
        "max": 40,
    },
    "Host": {"name": "a", "address": "local"},
    "Fleet": {"name": "a", "hosts": [{"name": "t4", "gpus": [{"board": "T4"}]}]},
    "Flavour": {"name": "a"},
}
# What examples ask for.
FLAVOURS = (Flavour(name="small"),)
EXAMPLES = {
    "VM": ["desktops.yaml", "training.yaml"],
    "Layout": ["layouts.yaml"],
    "Pool": ["pool.yaml"],
    "Host": ["hosts.yaml"],
    "Fleet": ["fleet.yaml"],
    "Flavour": ["flavours.yaml"],
}


def models(kind: str) -> dict[str, dict[str, Any]]:
    """The models of a kind that have keys, its own first, by their names in the schema."""
    schema = json_schema(kind)
    parts = {name: part for name, part in schema["$defs"].items() if "properties" in part}
    return {kind: schema, **parts}


def every_key() -> list[tuple[str, str, str]]:
    """Kind, model and key; those of a shared part once for each kind that has the part."""
    found = ((kind, name, model) for kind in LEAST for name, model in models(kind).items())
    return [(kind, name, key) for kind, name, model in found for key in model["properties"]]


def keys_of(
    data: object, part: dict[str, Any], kind: str, name: str = ""
) -> Iterator[tuple[str, str]]:
    """Model and key of everything that a document's data says, by following the schema."""
    for other in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        yield from keys_of(data, other, kind)
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        yield from keys_of(data, models(kind)[name], kind, name)
    elif isinstance(data, dict) and "properties" in part:
        for key in data.keys() & part["properties"].keys():
            yield name, key
            yield from keys_of(data[key], part["properties"][key], kind)
    elif isinstance(data, list) and "items" in part:
        for each in data:
            yield from keys_of(each, part["items"], kind)


@pytest.mark.parametrize("kind", LEAST)
def test_every_key_has_a_sentence(kind: str) -> None:
    for name, model in models(kind).items():
        told = KEYS.get(name, {})
        assert set(told) == set(model["properties"]), f"{name}: vgpumgr/spec/*_key_descriptions.py"
        for key, part in model["properties"].items():
            assert part["description"] == told[key].sentence
            assert told[key].sentence.endswith("."), f"{name}.{key} needs a sentence"
            assert "|" not in "".join(told[key]), f"{name}.{key} breaks the table"


def test_no_key_is_described_that_no_document_has() -> None:
    assert set(KEYS) == {name for kind in LEAST for name in models(kind)}


@pytest.mark.parametrize("kind", LEAST)
def test_every_key_that_counts_has_a_unit(kind: str) -> None:
    for name, model in models(kind).items():
        for key, part in model["properties"].items():
            types = {each.get("type") for each in [part, *part.get("anyOf", [])]}
            if types & {"integer", "number"} and key != "priority":
                assert KEYS[name][key].unit, f"{name}.{key} counts what?"


@pytest.mark.parametrize(("kind", "name", "key"), every_key())
def test_the_example_of_a_key_is_accepted_and_has_the_key(kind: str, name: str, key: str) -> None:
    line = KEYS[name][key].example
    assert "\n" not in line
    said = next(iter(trees(line, SpecFindings("example.yaml")))).data
    assert isinstance(said, dict)
    least = {"apiVersion": "vgpumgr/v1", "kind": kind, **LEAST[kind]}
    if "host_labels" in said:
        del least["hosts"]
    rest = {each: value for each, value in least.items() if each not in said}
    load(yaml.safe_dump({**rest, **said}), "example.yaml", flavours=FLAVOURS)
    assert (name, key) in set(keys_of(said, json_schema(kind), kind, kind))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_whole_examples_are_accepted(kind: str) -> None:
    page = (ROOT / "docs" / f"{kind.lower()}.md").read_text()
    files = [ROOT / "examples" / name for name in EXAMPLES[kind]]
    assert any(file.read_text() in page for file in files)
    for file in files:
        lines = load(file.read_bytes(), file.name).lines
        assert {each for each, _ in lines} == {kind}


def test_the_pages_of_keys_are_up_to_date() -> None:
    listed = subprocess.run(
        [sys.executable, "tools/list_keys.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert listed.returncode == 0, f"{listed.stdout}: run python tools/list_keys.py"
