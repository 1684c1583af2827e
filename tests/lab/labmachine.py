"""What the contract's cases do on the lab host by hand, over SSH as root."""

from __future__ import annotations

import json
import os
import shlex
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vgpumgr.model.errors import HostUnreachable
from vgpumgr.model.ports import Host

BY_HAND = (Path(__file__).parent / "by_hand.py").read_text()
ANSWERS_S = 120.0


class Shell(Protocol):
    """Root's shell on a host."""

    def root(self, command: str, stdin: str = "") -> str:
        """What a command prints; it must succeed."""


class Machine(Shell, Protocol):
    """A host whose power can be cut."""

    def reboot(self) -> None:
        """Off and on again; it answers afterwards."""


@dataclass(frozen=True)
class LabMachine:
    """Fulfils the contract's ``Machine``."""

    shell: Shell

    def read(self, path: str) -> str:
        return str(self._do("read", path))

    def write(self, path: str, text: str) -> None:
        self._do("write", path, text)

    def exists(self, path: str) -> bool:
        return bool(self._do("exists", path))

    def target(self, path: str) -> str:
        return str(self._do("target", path))

    def run(self, *argv: str) -> tuple[int, str]:
        status, said = self._do("run", *argv)
        return status, said

    def log(self) -> list[str]:
        return list(self._do("log"))

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def _do(self, *words: str) -> Any:
        said = self.shell.root(f"python3 - {shlex.quote(json.dumps(words))}", BY_HAND)
        answer = json.loads(said)
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]), words[1])
        return answer["answer"]


@dataclass(frozen=True)
class LabFaults:
    """Fulfils the contract's ``Faults`` as far as a host without NVIDIA's driver can suffer."""

    machine: Machine
    host: Host

    def reboot(self) -> None:
        """The controller's connections break as well: it finds the host again."""
        self.machine.reboot()
        deadline = time.monotonic() + ANSWERS_S
        while True:
            try:
                self.host.probe()
            except HostUnreachable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                return

    def client(self, gpu: str, name: str) -> AbstractContextManager[None]:
        raise NotImplementedError("only NVIDIA's driver has device nodes that programs hold")

    def unbind_fails(self, gpu: str, times: int) -> None:
        raise NotImplementedError("only NVIDIA's driver has an unbindLock")
