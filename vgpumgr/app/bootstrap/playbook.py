"""Running ``ansible-playbook`` as a program of its own, and reading what it tells."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.app.bootstrap.collection import PLAYBOOK
from vgpumgr.app.bootstrap.events import Event, HostEnd, end_of, ends, event_of
from vgpumgr.app.bootstrap.workplace import Workplace
from vgpumgr.model.errors import Interrupted, VgpumgrError

MAX_FORKS = 32
_LAST_WORDS = 2000
ANSIBLE: Sequence[str] = (sys.executable, "-m", "ansible", "playbook")


def require_programs() -> None:
    """VgpumgrError, with what to install, where Ansible or OpenSSH is missing."""
    if importlib.util.find_spec("ansible") is None:
        raise VgpumgrError(
            "Ansible is not installed, and --bootstrap needs it",
            next="pip install 'vgpumgr[bootstrap]'",
        )
    for program in ("ssh", "ssh-keygen", "openssl"):
        if shutil.which(program) is None:
            raise VgpumgrError(
                f"there is no program {program} here, and --bootstrap needs it",
                next="apt install openssh-client openssl",
            )


@dataclass
class _Told:
    events: list[Event] = field(default_factory=list)
    left: Mapping[str, Mapping[str, Any]] | None = None

    def hear(self, line: str) -> Event | None:
        left = end_of(line)
        self.left = self.left if left is None else left
        event = event_of(line)
        if event is not None:
            self.events.append(event)
        return event


def run(
    workplace: Workplace,
    names: Sequence[str],
    *,
    check: bool,
    seen: Callable[[Event], None],
    stop: threading.Event,
) -> dict[str, HostEnd]:
    """Run the playbook on all hosts of the inventory; how it ended on each.

    ``check`` changes nothing. Interrupted once ``stop`` is set; VgpumgrError when Ansible itself
    failed.
    """
    told = _Told()
    with tempfile.TemporaryFile(mode="w+", dir=workplace.folder) as errors:
        process = subprocess.Popen(
            [*ANSIBLE, *_arguments(workplace, check=check)],
            env=workplace.environ(os.environ, forks=min(len(names), MAX_FORKS)),
            cwd=workplace.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with process:
            _listen(process, told, seen, stop)
        if stop.is_set():
            raise Interrupted("the setup was interrupted", next="the same command resumes it")
        if told.left is None:
            errors.seek(0)
            raise _broke(process.returncode, errors.read())
    return ends(names, told.events, told.left)


def _arguments(workplace: Workplace, *, check: bool) -> list[str]:
    given = ["-i", str(workplace.inventory), "-e", f"@{workplace.variables}"]
    return [*given, *(["--check", "--diff"] if check else []), PLAYBOOK]


def _listen(
    process: subprocess.Popen[str],
    told: _Told,
    seen: Callable[[Event], None],
    stop: threading.Event,
) -> None:
    """Until it has told all; it is interrupted when we are, or fail."""
    try:
        for line in process.stdout or ():
            event = told.hear(line)
            if event is not None:
                seen(event)
            if stop.is_set():
                process.send_signal(signal.SIGINT)
                return
    except BaseException:
        process.send_signal(signal.SIGINT)
        raise


def _broke(status: int, errors: str) -> VgpumgrError:
    return VgpumgrError(
        f"Ansible broke off (status {status})",
        why=errors.strip()[-_LAST_WORDS:] or "it said nothing",
        next="the same command resumes where it stopped",
    )
