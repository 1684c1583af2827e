"""Which files and functions of vgpumgr a client enters for one request, on the demo's fleet.

The requests are ``apply`` of a file with one VM (an T4-8Q and a disk of 20 GiB) and ``vm start``
of that VM. Each runs as the program does, in a process of its own that imports vgpumgr from the
measured checkout, all threads included; the simulated hosts and the helper run in the fleet's
process and are not seen. Counted are named functions (no lambdas, comprehensions, class bodies)
that the request calls; what runs only because a module is imported is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

VM = """\
apiVersion: vgpumgr/v1
kind: VM
name: one
vcpus: 4
memory: 8GiB
gpus: [{profile: T4-8Q}]
disks: [{size: 20GiB}]
"""


def profile(tree: Path) -> dict[str, dict[str, Any]]:
    """By request, how many files, functions and calls of the checkout ``tree`` are entered.

    ``rooms`` are the files by top-level package. CalledProcessError where a command fails; what it
    had to say is on standard error.
    """
    with tempfile.TemporaryDirectory(prefix="vgpumgr-house-") as folder:
        client = _Client(tree.resolve(), Path(folder))
        vm = Path(folder) / "one.yaml"
        vm.write_text(VM)
        with _fleet(client):
            applied = client.entered("apply", "-f", str(vm))
            client.run("vm", "stop", "one", "--force")
            return {"apply": applied, "vm start": client.entered("vm", "start", "one")}


@dataclass(frozen=True, slots=True)
class _Client:
    """The program of the checkout ``tree``, with a state folder in ``folder``."""

    tree: Path
    folder: Path

    def run(self, *args: str) -> None:
        self._python("-m", "vgpumgr", *args)

    def entered(self, *args: str) -> dict[str, Any]:
        out = self.folder / "entered.json"
        self._python(str(Path(__file__).resolve()), str(self.tree), str(out), *args)
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    def _python(self, *args: str) -> None:
        state = str(self.folder / "state")
        environ = {**os.environ, "PYTHONPATH": str(self.tree), "VGPUMGR_STATE_DIR": state}
        # Progress is kept out of sight until a command fails.
        ran = subprocess.run(
            [sys.executable, *args], cwd=self.folder, env=environ, capture_output=True, text=True
        )
        if ran.returncode:
            print(ran.stdout, ran.stderr, sep="", file=sys.stderr)
        ran.check_returncode()


@contextmanager
def _fleet(client: _Client) -> Iterator[None]:
    demo = client.tree / "examples" / "demo"
    client.run("sim", "up", "-f", str(demo / "fleet.yaml"))
    try:
        client.run("layout", "apply", "-f", str(demo / "layout.yaml"), "-y")
        yield
    finally:
        client.run("sim", "down")


def _record(product: Path, out: Path, argv: Sequence[str]) -> None:
    """Run the program with these arguments in this process, and write what it entered."""
    from vgpumgr.cli import main

    inside = f"{product}{os.sep}"
    calls: Counter[CodeType] = Counter()

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(inside):
            return
        if code in calls or not _importing(frame, inside):
            calls[code] += 1

    sys.argv = ["vgpumgr", *argv]
    threading.setprofile(enter)  # hosts are asked in threads
    sys.setprofile(enter)
    try:
        main()
    finally:
        sys.setprofile(None)
        out.write_text(json.dumps(_summary(product, dict(calls))))


def _importing(frame: FrameType, inside: str) -> bool:
    """Does a module of ours that is being imported call this?"""
    above: FrameType | None = frame
    while above is not None:
        if above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(inside):
            return True
        above = above.f_back
    return False


def _summary(product: Path, calls: Mapping[CodeType, int]) -> dict[str, Any]:
    entered = {code: number for code, number in calls.items() if _is_named_function(code)}
    files = {Path(code.co_filename).relative_to(product) for code in entered}
    return {
        "files": len(files),
        "functions": len(entered),
        "calls": sum(entered.values()),
        "rooms": dict(sorted(Counter(file.parts[0] for file in files).items())),
    }


def _is_named_function(code: CodeType) -> bool:
    return bool(code.co_flags & CO_OPTIMIZED) and not code.co_name.startswith("<")


if __name__ == "__main__":
    _record(Path(sys.argv[1]) / "vgpumgr", Path(sys.argv[2]), sys.argv[3:])
