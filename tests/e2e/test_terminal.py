"""At a terminal of 80 columns nothing breaks; elsewhere lines are whole, and NO_COLOR is kept."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, new_cli, vm

pytestmark = pytest.mark.mainline

NARROW = 80
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """Boards with long names, full of VMs with long names, and some that wait."""
    with new_cli() as found:
        found.sim_up(host("a100-01", ("A100-PCIE-80GB", 1)), host("vdi-01", ("T4", 2)))
        rule = {"model": "A100-PCIE-80GB", "mig": True, "vfs": "max"}
        layout = {"kind": "Layout", "name": "cut", "hosts": ["a100-01"], "gpus": [rule]}
        found.ok("layout", "apply", "-f", found.documents(layout), "-y")
        found.ok("apply", "-f", found.documents(vm("a-long-notebook", "1g.10gb", replicas=7)))
        waits = vm("a-long-render-job", "1g.10gb", queue={"priority": "high"}, replicas=2)
        found.ok("apply", "-f", found.documents(waits))
        found.documents(vm("more", "1g.10gb", replicas=3), name="more.yaml")
        yield found


def typed(cli: Cli, *words: str, **environment: str) -> str:
    """What a terminal of 80 columns shows."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("COLUMNS", None)
        os.environ.pop("NO_COLOR", None)
        os.environ.update(environment)
        argv = [sys.executable, "-m", "vgpumgr", "--state-dir", str(cli.state), *words]
        os.execv(sys.executable, argv)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, NARROW, 0, 0))
    shown = b""
    while part := _read(terminal):
        shown += part
    os.waitpid(child, 0)
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        "map", "gpu list", "vm list", "queue list", "operation list", "capacity 1g.10gb",
        "plan -f more.yaml", "explain -f more.yaml --vm more-03", "explain a-long-render-job-02",
    ],
)  # fmt: skip
def test_no_line_is_wider_than_the_terminal(cli: Cli, words: str) -> None:
    given = [str(cli.folder / each) if each.endswith(".yaml") else each for each in words.split()]
    shown = ESCAPE.sub("", typed(cli, *given))
    assert [line for line in shown.splitlines() if len(line) > NARROW] == []
    assert "Traceback" not in shown


@pytest.mark.thorough
def test_colours_are_there_unless_somebody_wants_none(cli: Cli) -> None:
    assert ESCAPE.search(typed(cli, "map"))
    assert not ESCAPE.search(typed(cli, "map", NO_COLOR="1"))
    assert ESCAPE.search(typed(cli, "vm", "show", "nobody"))
    assert not ESCAPE.search(typed(cli, "vm", "show", "nobody", NO_COLOR="1"))


def test_what_is_no_terminal_gets_whole_lines(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    head, *rows = cli.ok("gpu", "list").out.splitlines()
    assert head.split()[-1] == "ID"
    assert len(rows) == 3
    text = cli.fails(5, "plan", "-f", str(cli.folder / "more.yaml")).out
    assert max(map(len, text.splitlines())) > 200
    assert "\x1b" not in text
