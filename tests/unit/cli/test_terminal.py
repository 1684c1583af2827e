"""What reaches a terminal: harmless, with our own colours, by one door."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import vgpumgr.cli
from vgpumgr.cli.output import Column, fields
from vgpumgr.cli.terminal import CLEAR_LINE, echo, harmless, json_text, one_line, style

CONTROLS = "\x1b[31m \x07 \x00 \r \x7f \x9b31m \u202e \u2066 \u200f \u061c \u2028 \ud800"
FOLDER = Path(vgpumgr.cli.__file__).parent
DOORS = {
    *("click.echo", "click.secho", "click.style", "click.prompt", "click.confirm"),
    *("print", "json.dump", "sys.stdout.write", "sys.stderr.write", "traceback.print_exception"),
}
# Where we print, and where we ask.
OURS = {"terminal.py", "questions.py"}


def _doors(text: str) -> list[str]:
    """Calls that print past ``terminal.py``: click.echo, click.prompt, print and their like."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in DOORS:
                found.append(called)
    return found


def test_there_is_one_place_that_prints() -> None:
    past = {
        str(path.relative_to(FOLDER)): doors
        for path in FOLDER.rglob("*.py")
        if path.name not in OURS and (doors := _doors(path.read_text()))
    }
    assert past == {}


def test_every_control_is_written_out() -> None:
    assert harmless(CONTROLS) == (
        "\\x1b[31m \\x07 \\x00 \\x0d \\x7f \\x9b31m \\u202e \\u2066 \\u200f \\u061c \\u2028 \\ud800"
    )
    assert harmless("line\n\tone: ü × 漢 😀") == "line\n\tone: ü × 漢 😀"
    assert harmless(harmless(CONTROLS)) == harmless(CONTROLS)


def test_a_cell_and_a_field_cannot_make_a_line_of_their_own() -> None:
    assert one_line("a\nb\tc") == "a\\nb\\tc"
    assert Column("NAME", "name").text({"name": "a\nh2  ok"}) == "a\\nh2  ok"
    assert fields([("Name", "a\nState: ok")]).splitlines()[1].startswith("       State: ok")


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.delenv("NO_COLOR", raising=False)
    return CliRunner()


def test_our_colours_show_and_theirs_do_not(printed: CliRunner) -> None:
    @click.command()
    def shown() -> None:
        echo(f"{style('red', fg='red', bold=True)} \x1b[32mgreen{CLEAR_LINE}")

    out = printed.invoke(shown, color=True).output
    assert out == "\x1b[31m\x1b[1mred\x1b[0m \\x1b[32mgreen\r\x1b[K\n"


def test_no_color_takes_our_colours_away(
    printed: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    @click.command()
    def shown() -> None:
        echo(style("red", fg="red"))

    assert printed.invoke(shown, color=True).output == "red\n"


def test_json_is_exact_and_printable() -> None:
    text = json_text({"name": CONTROLS})
    assert json.loads(text) == {"name": CONTROLS}
    assert re.fullmatch("[\x20-\x7e]*", text)
