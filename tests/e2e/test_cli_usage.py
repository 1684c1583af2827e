"""Grammar, help, streams and exit codes that need no host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import jsonschema
import pytest
import yaml

from tests.e2e.support import Cli, new_cli, vm
from vgpumgr.cli.root import COMMANDS, SECTIONS

HEAVY = ("paramiko", "sqlalchemy", "libvirt", "pydantic", "numpy", "lxml", "yaml")
LISTS = ("host list", "gpu list", "vm list", "allocation list", "operation list", "capacity")


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        yield found


def imported(*args: str, **env: str) -> set[str]:
    """The heavy packages that a command imports, told by a process of its own."""
    code = (
        "import atexit, sys\n"
        "from vgpumgr.cli import main\n"
        f"show = lambda: print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
        "atexit.register(show)\n"
        "sys.argv[0] = 'vgpumgr'\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
    return set(yaml.safe_load(ended.stderr.strip().splitlines()[-1]))


@pytest.mark.parametrize("args", [["--help"], ["vm", "--help"], ["completion", "bash"]])
def test_help_and_completion_scripts_import_nothing_heavy(args: list[str]) -> None:
    assert imported(*args) == set()


@pytest.mark.parametrize(("typed", "offered"), [("vgpumgr ", "apply"), ("vgpumgr vm ", "reboot")])
def test_completing_at_the_shell_imports_nothing_heavy_and_ends_well(
    typed: str, offered: str
) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    assert imported(_VGPUMGR_COMPLETE="bash_complete", **words) == set()
    assert offered in _completed(words)


def _completed(words: dict[str, str]) -> str:
    env = {**os.environ, **words, "_VGPUMGR_COMPLETE": "bash_complete"}
    return subprocess.check_output([sys.executable, "-m", "vgpumgr"], text=True, env=env)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(cli: Cli, name: str) -> None:
    shown = cli.ok(name, "--help")
    assert f"Usage: vgpumgr {name}" in shown.out
    assert not shown.err


def test_the_root_help_names_every_command_once_below_a_heading(cli: Cli) -> None:
    shown = cli.ok("--help").out
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)
    for heading, names in SECTIONS.items():
        below = shown.partition(f"\n{heading}:\n")[2].partition("\n\n")[0]
        assert all(f"  {name} " in below for name in names), heading


def test_an_unknown_command_gets_a_suggestion(cli: Cli) -> None:
    assert "Did you mean apply?" in cli.fails(2, "aply").err


@pytest.mark.parametrize(
    "args",
    [
        ["vm", "list", "--nonsense"],
        ["vm", "list", "-o", "xml"],
        ["vm", "create"],
        ["apply"],
        ["capacity", "--memory", "lots"],
        ["capacity", "--vcpus", "0"],
        ["vm", "create", "a", "--vcpus", "0"],
        ["vm", "create", "a", "--memory", "4"],
        ["vm", "list", "-l", "nonsense"],
        ["host", "list", "-l", "=x"],
        ["host", "add", "only-a-name"],
        ["host", "add", "a", "--address", "sim://a", "--label", "novalue"],
        ["host", "trust", "a"],
        ["schema", "Nonsense"],
        ["completion", "tcsh"],
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_2_with_nothing_on_stdout(cli: Cli, args: list[str]) -> None:
    failed = cli.fails(2, *args)
    assert failed.err
    assert not failed.out


def test_a_usage_error_is_one_json_object_where_json_was_asked_for(cli: Cli) -> None:
    failed = cli.fails(2, "vm", "list", "-o", "json", "--nonsense")
    assert failed.err.count("\n") == 1
    assert set(failed.error) == {"code", "message", "why", "next", "exit"}
    assert failed.error["exit"] == 2


@pytest.mark.parametrize("spelling", [["-o", "json"], ["-ojson"], ["--output=json"]])
def test_errors_follow_the_output_format(cli: Cli, spelling: list[str]) -> None:
    failed = cli.fails(3, "vm", "show", "nobody", *spelling)
    assert failed.error["code"] == "not-found"
    assert failed.error["exit"] == 3


@pytest.mark.parametrize("command", LISTS)
def test_without_a_ledger_lists_are_empty_and_make_none(cli: Cli, command: str) -> None:
    listed = cli.ok(*command.split(), "-o", "json").json
    assert listed["apiVersion"] == "vgpumgr/v1"
    assert listed["kind"].endswith("List")
    assert listed["items"] == []
    assert not cli.state.exists()


@pytest.mark.parametrize("command", LISTS)
@pytest.mark.parametrize("form", ["table", "wide", "name", "csv", "yaml"])
def test_an_empty_list_prints_in_every_format(cli: Cli, command: str, form: str) -> None:
    shown = cli.ok(*command.split(), "-o", form).out
    match form:
        case "csv":
            assert len(shown.splitlines()) == 1
        case "yaml":
            assert yaml.safe_load(shown)["items"] == []
        case _:
            assert shown == ""


def test_an_unknown_column_names_those_there_are(cli: Cli) -> None:
    failed = cli.fails(2, "vm", "list", "--columns", "name,nonsense", "-o", "json")
    assert failed.error["message"] == "no column NONSENSE"
    assert "HOST" in failed.error["next"]


@pytest.mark.parametrize(
    "args",
    [
        ["host", "show", "gpu1"],
        ["host", "cordon", "gpu1"],
        ["host", "probe", "gpu1"],
        ["host", "remove", "gpu1", "-y"],
        ["host", "trust", "gpu1", "--fingerprint", "SHA256:x"],
        ["gpu", "show", "gpu1"],
        ["vm", "show", "a"],
        ["vm", "xml", "a"],
        ["vm", "start", "a"],
        ["vm", "stop", "a"],
        ["vm", "reboot", "a"],
        ["vm", "delete", "a", "-y"],
        ["operation", "show", "a"],
        ["operation", "resume", "a"],
        ["operation", "undo", "a"],
        ["apply", "-f", "no-such-file.yaml"],
    ],
    ids=" ".join,
)
def test_what_does_not_exist_exits_3(cli: Cli, args: list[str]) -> None:
    failed = cli.fails(3, *args)
    assert failed.err.startswith("error: ")


@pytest.mark.parametrize("verb", ["apply", "plan", "diff"])
def test_without_a_host_the_error_says_how_to_add_one(cli: Cli, verb: str) -> None:
    failed = cli.fails(3, verb, "-f", cli.documents(vm("a")))
    assert "next: vgpumgr host add" in failed.err


@pytest.mark.parametrize("kind", ["VM", "host", "Fleet"])
def test_the_schema_is_valid_and_judges_like_the_program(cli: Cli, kind: str) -> None:
    schema = cli.ok("schema", kind).json
    jsonschema.Draft202012Validator.check_schema(schema)
    document = {"apiVersion": "vgpumgr/v1", "kind": kind.title(), "nonsense": 1}
    assert not jsonschema.Draft202012Validator(schema).is_valid(document)


def test_the_schema_accepts_the_demo(cli: Cli) -> None:
    schema = jsonschema.Draft202012Validator(cli.ok("schema").json)
    with open("examples/demo/vms.yaml", encoding="utf-8") as file:
        for document in yaml.safe_load_all(file):
            schema.validate(document)


def test_a_file_may_come_from_standard_input(cli: Cli) -> None:
    failed = cli.fails(2, "apply", "-f", "-", stdin=b"kind: VM\nnonsense: 1\n")
    assert "standard input:" in failed.err


def test_a_reader_that_goes_away_ends_the_program_quietly(cli: Cli) -> None:
    process = cli.process("schema")
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait()


def test_debug_shows_where_an_error_came_from(cli: Cli) -> None:
    process = cli.process("--debug", "vm", "show", "nobody")
    _, err = process.communicate()
    assert "Traceback" in err
    assert process.returncode == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(cli: Cli, shell: str) -> None:
    assert "_VGPUMGR_COMPLETE" in cli.ok("completion", shell).out


def test_json_output_is_one_object(cli: Cli) -> None:
    assert json.loads(cli.ok("map", "-o", "json").out)["kind"] == "Map"
