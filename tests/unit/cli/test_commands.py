"""Each command has a heading in --help, a shell completes the names that it takes, and it has a
line in the transcripts, also as JSON.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from tests.unit.cli.transcripts import commands
from vgpumgr.cli.commands import completion
from vgpumgr.cli.root import COMMANDS, SECTIONS, root
from vgpumgr.endpoints.registry import ENDPOINTS

GOLDEN = Path(__file__).parents[2] / "golden" / "cli"
NOT_TYPED = {
    **dict.fromkeys(("login", "logout"), "need a provider; tests/e2e/test_api_login.py"),
    **dict.fromkeys(
        ("context add", "context list", "context use", "context remove"),
        "works on the user's own files; tests/unit/client/test_contexts.py",
    ),
    "api": "serves until it is stopped; tests/e2e/test_api.py",
    "completion": "prints what click generates",
    "pool watch": "goes on until Ctrl-C",
    "sim add": "talks to the simulator's own process; tests/e2e/test_sim.py",
    "sim up": "starts a process; tests/e2e/test_sim.py",
}
NOT_AS_JSON = {
    "serve": "prints events, a line each",
    "store backup": "the digest of the file is another each time",
    "metrics rules": "as long as the file of rules: tests/unit/telemetry/test_alert_rules.py",
}
NOT_COMPLETED = {
    *(
        "vm create name",
        "vm clone clone",
        "vm rename new_name",
        "vm snapshot create snapshot",
        "backup target create name",
        "host add name",
        "sim add name",
        "token create name",
        "webhook add name",
    ),  # new names
    *("pool assign user", "pool connect user", "pool release user"),  # the directory's names
    *("context add name", "context use name", "context remove name"),
    *("layout import file", "store migrate addresses", "capacity profiles", "sim inject fault"),
}


def leaves(group: click.Group = root, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from leaves(command, (*path, name))
            else:
                yield (*path, name)


def command_at(path: tuple[str, ...]) -> click.Command:
    found: click.Command = root
    for name in path:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name)
    return found


@cache
def typed() -> list[list[str]]:
    return [
        shlex.split(command)[1:]
        for file in GOLDEN.glob("*.txt")
        for command, _ in commands(file.read_text())
        if command.startswith("vgpumgr ")
    ]


def test_each_command_stands_below_one_heading() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


EACH = pytest.mark.parametrize("path", list(leaves()), ids=" ".join)


@EACH
def test_a_shell_completes_each_name(path: tuple[str, ...]) -> None:
    for each in command_at(path).params:
        if isinstance(each, click.Argument) and not isinstance(
            each.type, click.Choice | click.Path
        ):
            named = f"{' '.join(path)} {each.name}"
            completes = each._custom_shell_complete is not None
            assert completes or named in NOT_COMPLETED, f"give it shell_complete: {named}"


def test_what_completes_from_a_ledger_completes_at_a_server() -> None:
    assert completion._LISTS.keys() == completion._NAMES.keys()
    assert {name for name, _, _ in completion._LISTS.values()} <= set(ENDPOINTS)


@EACH
def test_each_command_is_typed_in_a_transcript(path: tuple[str, ...]) -> None:
    if " ".join(path) in NOT_TYPED:
        return
    lines = [line for line in typed() if tuple(line[: len(path)]) == path]
    assert lines, f"type it in a file of tests/golden/cli: {' '.join(path)}"
    has_format = any(each.name == "format_name" for each in command_at(path).params)
    if has_format and " ".join(path) not in NOT_AS_JSON:
        as_json = [line for line in lines if {"json", "yaml"} & set(line) and "-o" in line]
        assert as_json, f"type it in a file of tests/golden/cli with -o json: {' '.join(path)}"
