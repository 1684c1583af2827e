"""The program as a user types it: in this process for speed, in its own where signals matter.

A ``Cli`` has its own state folder; whatever simulated fleet a test starts goes down with it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from tests import simfork
from vgpumgr.cli.root import run
from vgpumgr.model.codec import to_plain
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.sim.sim_client import SimHosts

DEADLINE_S = 120.0
# A host remembers for good which epoch it has seen, and until the next boot what a guest had.
REMEMBERED = ("file:/var/lib/vgpumgr/epochs/", "file:/run/")


@dataclass(frozen=True, slots=True)
class Ran:
    """What one command left: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, parsed; no time in it is a bare number."""
        found = json.loads(self.out)
        bare = list(unix_times(found, time.time()))
        assert not bare, f"Unix seconds where a time in UTC belongs: {bare}"
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The one error object on standard error."""
        return json.loads(self.err)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table, its head left out."""
        return [line.split() for line in self.out.splitlines()[1:]]


def run_argv(*argv: str, stdin: bytes = b"") -> Ran:
    """Run the program in this process as if typed; it must never show a traceback."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    with (
        mock.patch.multiple(sys, argv=list(argv), stdin=given),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = _exit_code(run)
    ran = Ran(code, _text(out), _text(err))
    assert "Traceback" not in ran.err, ran.err
    assert "bug in vgpumgr" not in ran.err, ran.err
    return ran


class Cli:
    """One user with one state folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"

    def __call__(self, *args: str, stdin: bytes = b"") -> Ran:
        """Run a command in this process."""
        return run_argv("vgpumgr", "--state-dir", str(self.state), *args, stdin=stdin)

    def ok(self, *args: str, stdin: bytes = b"") -> Ran:
        """Run a command that must succeed."""
        ran = self(*args, stdin=stdin)
        assert ran.code == 0, f"{' '.join(args)}: exit {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def fails(self, code: int, *args: str, stdin: bytes = b"") -> Ran:
        """Run a command that must fail with this code."""
        ran = self(*args, stdin=stdin)
        assert ran.code == code, f"{' '.join(args)}: exit {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def process(self, *args: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command as a process of its own."""
        argv = [sys.executable, "-m", "vgpumgr", "--state-dir", str(self.state), *args]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(argv, text=True, **{**pipes, **options})

    def file(self, text: str | bytes, name: str = "given.yaml") -> str:
        """Write a file beside the state folder."""
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def documents(self, *documents: dict[str, Any], name: str = "given.yaml") -> str:
        """Write YAML documents; ``apiVersion`` and ``kind: VM`` are filled in."""
        head = {"apiVersion": "vgpumgr/v1", "kind": "VM"}
        copied = json.loads(json.dumps([{**head, **each} for each in documents]))
        return self.file(yaml.safe_dump_all(copied), name)  # a copy: no YAML aliases

    def sim_up(self, *hosts: dict[str, Any]) -> None:
        """Start and enrol a simulated fleet of these hosts."""
        fleet = {"kind": "Fleet", "name": "tests", "hosts": list(hosts)}
        with simfork.quick():
            self.ok("sim", "up", "-f", self.documents(fleet, name="fleet.yaml"))

    def items(self, *args: str) -> list[dict[str, Any]]:
        """The items of a list command."""
        found: list[dict[str, Any]] = self.ok(*args, "-o", "json").json["items"]
        return found

    def close(self) -> None:
        """Take the fleet down."""
        if (self.state / "sim").exists():
            self("sim", "down")


@contextlib.contextmanager
def new_cli() -> Iterator[Cli]:
    """A user with a new state folder, gone afterwards with its fleet."""
    folder = Path(tempfile.mkdtemp(prefix="vgpumgr-"))
    cli = Cli(folder)
    try:
        yield cli
    finally:
        cli.close()
        shutil.rmtree(folder)


def vm(name: str, *profiles: str, **more: Any) -> dict[str, Any]:
    """A small VM document."""
    gpus = [{"profile": profile} for profile in profiles]
    return {"name": name, "vcpus": 1, "memory": "1GiB", "gpus": gpus, **more}


def pool(**more: Any) -> dict[str, Any]:
    """A pool document of small desktops, one T4-4Q each, for the group ``staff``."""
    asked = {
        "kind": "Pool",
        "name": "cad",
        "image": "cad@1",
        "vcpus": 1,
        "memory": "1GiB",
        "gpus": [{"profile": "T4-4Q"}],
        "entitlement": {"groups": ["staff"]},
    }
    return {**asked, **more}


def host(name: str, *boards: tuple[str, int], **more: Any) -> dict[str, Any]:
    """A small simulated host."""
    gpus = [{"board": board, "count": count} for board, count in boards]
    return {"name": name, "cpus": 16, "memory": "64GiB", "gpus": gpus, **more}


def until(holds: Callable[[], bool], what: str) -> None:
    """Poll until it holds; fails loudly after a generous deadline."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, f"waited {DEADLINE_S:.0f} s in vain for: {what}"
        time.sleep(0.02)


def interrupt(process: subprocess.Popen[str], number: int = signal.SIGINT) -> Ran:
    """Send a signal and collect the end."""
    os.kill(process.pid, number)
    return finish(process)


def finish(process: subprocess.Popen[str]) -> Ran:
    """Wait for a process and collect its streams."""
    out, err = process.communicate(timeout=DEADLINE_S)
    return Ran(process.returncode, out, err)


def unix_times(value: Any, now: float, path: str = "") -> Iterator[str]:
    """Where in parsed JSON a number lies that can only be a time of these weeks."""
    if isinstance(value, dict):
        for key, each in value.items():
            if not key.endswith("_s"):  # a span
                yield from unix_times(each, now, f"{path}.{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from unix_times(each, now, f"{path}[{number}]")
    elif isinstance(value, int | float) and abs(value - now) < 30 * 86_400:
        yield path


def names(items: Sequence[dict[str, Any]]) -> list[str]:
    """The names of a list's items."""
    return [item["name"] for item in items]


def _exit_code(program: Callable[[], None]) -> int:
    try:
        program()
    except SystemExit as end:
        return int(end.code or 0)
    raise AssertionError("the program must end with an exit code")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


@contextlib.contextmanager
def sim_host(cli: Cli, name: str) -> Iterator[Host]:
    """A simulated host as libvirt and the helper know it, past everything that vgpumgr decides."""
    hosts = SimHosts(cli.state / "sim")
    try:
        yield hosts.open(HostRecord(name=name, address=f"sim://{name}"))
    finally:
        hosts.close()


def host_dumps(cli: Cli) -> list[dict[str, Any]]:
    """All that is on the simulated hosts: a probe of each, and what they keep on disk."""
    journal = (cli.state / "sim" / "durable.jsonl").read_text().splitlines()
    rows = map(json.loads, journal)
    kept = {(of, key): text for of, key, text in rows if not key.startswith(REMEMBERED)}
    dumps = []
    for name in cli.ok("sim", "status", "-o", "json").json["hosts"]:
        with sim_host(cli, name) as found:
            probed = to_plain(found.probe())
        on_disk = {key: text for (of, key), text in kept.items() if of == name and text is not None}
        del probed["epochs"]  # a host remembers the highest that ever spoke to it
        dumps.append({**probed, "kept": on_disk})
    return dumps
