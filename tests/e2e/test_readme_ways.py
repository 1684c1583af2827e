"""Every YAML of the README, at most ten lines each, run as written on the demo's fleet."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Cli, interrupt, new_cli, until

pytestmark = pytest.mark.mainline

FENCE = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
FILES = FENCE.findall(Path("README.md").read_text())
VMS = [text for text in FILES if "kind: VM" in text]
POOLS = [text for text in FILES if "kind: Pool" in text]
# The commands that follow the pool's file.
POOL_SHELL = re.compile(r"kind: Pool\n.*?```sh\n(.*?)```", re.DOTALL)
LAYOUTS = [text for text in FILES if "kind: Layout" in text]
# What the other files need and the README's one Layout does not name.
MORE = """
apiVersion: vgpumgr/v1
kind: Layout
name: more
hosts: [a40-01]
gpus: [{model: A40, vfs: max}]
"""


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        found.ok("sim", "up", "-f", "examples/demo/fleet.yaml")
        for text in (*LAYOUTS, MORE):
            found.ok("layout", "apply", "-f", found.file(text), "-y")
        yield found


def test_the_files_are_short_and_cover_every_way() -> None:
    assert all(len(text.strip().splitlines()) <= 10 for text in FILES)
    assert len(VMS) >= 7
    assert len(LAYOUTS) == 1


@pytest.mark.parametrize("text", VMS, ids=lambda text: re.findall("name: (.*)", text)[0])
def test_a_vm_of_the_readme_is_made_runs_and_goes(cli: Cli, text: str) -> None:
    file = cli.file(text)
    applied = cli.ok("apply", "-f", file, "-o", "json").json
    assert {vm["state"] for vm in applied["vms"]} == {"done"}
    assert {vm["power"] for vm in cli.items("vm", "list")} == {"running"}
    cli.ok("delete", "-f", file, "--force", "-y")
    assert cli.items("vm", "list") == []
    assert cli.items("allocation", "list") == []


def test_the_layouts_hold_afterwards(cli: Cli) -> None:
    cli.ok("layout", "assert")


def test_the_pool_of_the_readme_is_used_as_written(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    [text], [shell] = POOLS, POOL_SHELL.findall(Path("README.md").read_text())
    cli.file(text, "pool.yaml")
    monkeypatch.chdir(cli.folder)
    lines = [shlex.split(line, comments=True) for line in shell.splitlines()]
    said, serving = "", None
    for program, *words in lines:
        if program != "vgpumgr":
            subprocess.run([program, *words], check=True)
        elif words[-1] == "&":
            serving = cli.process(*words[:-1])
        else:
            said += cli.ok(*words).out
    assert "ada has cad-0" in said
    assert "Password:" in said
    until(lambda: cli.items("pool", "list") == cli.items("vm", "list") == [], "an empty fleet")
    assert serving is not None
    assert interrupt(serving).code == 0
