"""A run of `ansible-playbook` as a program of its own, in a temporary folder of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vgpumgr.app.bootstrap.playbook_events import (
    HostSetupEnd,
    PlaybookEvent,
    end_of,
    ends,
    event_of,
)
from vgpumgr.app.bootstrap.variables import CALLBACK, PLAYBOOK, collections_folder
from vgpumgr.hosts.ssh.routes import OpenSshRoute
from vgpumgr.model.errors import Interrupted, VgpumgrError

# Nothing of the user's own Ansible counts, and nothing stands in an argument list: inventory,
# variables, SSH configuration and pinned keys are files that only we may read.


_PASSED_ON = ("HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "TMPDIR", "USER")


@dataclass(frozen=True, slots=True)
class AnsibleFolder:
    """A folder of mode 0700; every file in it is written with mode 0600."""

    folder: Path

    @property
    def inventory(self) -> Path:
        """The hosts with their variables."""
        return self.folder / "inventory.yaml"

    @property
    def variables(self) -> Path:
        """The user's variables, which beat those of the inventory."""
        return self.folder / "variables.json"

    def write(self, name: str, data: bytes) -> Path:
        """A file; its path."""
        path = self.folder / name
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        return path

    def fill(
        self,
        hosts: Mapping[str, Mapping[str, object]],
        variables: Mapping[str, object],
        ways: Sequence[OpenSshRoute],
    ) -> None:
        """Write everything. JSON is YAML, too."""
        inventory = {"all": {"hosts": {name: dict(each) for name, each in hosts.items()}}}
        self.write(self.inventory.name, json.dumps(inventory).encode())
        self.write(self.variables.name, json.dumps(dict(variables)).encode())
        self.write("ssh_config", "\n".join(way.config for way in ways).encode())
        self.write("known_hosts", "".join(way.known_hosts for way in ways).encode())
        self.write("ansible.cfg", b"")

    def environ(self, outer: Mapping[str, str], forks: int) -> dict[str, str]:
        """The environment of Ansible's process: few variables of ours, and its settings."""
        ssh = ["-F", str(self.folder / "ssh_config"), "-o", "ControlMaster=auto"]
        ours = {
            "COLLECTIONS_PATH": str(collections_folder()),
            "COLLECTIONS_SCAN_SYS_PATH": "false",
            "CONFIG": str(self.folder / "ansible.cfg"),
            "DEPRECATION_WARNINGS": "false",
            "FORKS": str(forks),
            "HOME": str(self.folder / "ansible"),
            "HOST_KEY_CHECKING": "true",
            "INVENTORY_ENABLED": "yaml",
            "LOCALHOST_WARNING": "false",
            "LOCAL_TEMP": str(self.folder / "ansible" / "tmp"),
            "NOCOLOR": "true",
            "PIPELINING": "true",
            "RETRY_FILES_ENABLED": "false",
            "SSH_ARGS": shlex.join([*ssh, "-o", "ControlPersist=30s"]),
            "SSH_CONTROL_PATH_DIR": str(self.folder / "ssh"),
            "STDOUT_CALLBACK": CALLBACK,
            "TIMEOUT": "30",
        }
        kept = {name: outer[name] for name in _PASSED_ON if name in outer}
        return {
            **kept,
            "LC_ALL": "C.UTF-8",
            **{f"ANSIBLE_{name}": value for name, value in ours.items()},
        }


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
    events: list[PlaybookEvent] = field(default_factory=list)
    left: Mapping[str, Mapping[str, Any]] | None = None

    def hear(self, line: str) -> PlaybookEvent | None:
        left = end_of(line)
        self.left = self.left if left is None else left
        event = event_of(line)
        if event is not None:
            self.events.append(event)
        return event


def run_playbook(
    workplace: AnsibleFolder,
    names: Sequence[str],
    *,
    check: bool,
    seen: Callable[[PlaybookEvent], None],
    stop: threading.Event,
) -> dict[str, HostSetupEnd]:
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


def _arguments(workplace: AnsibleFolder, *, check: bool) -> list[str]:
    given = ["-i", str(workplace.inventory), "-e", f"@{workplace.variables}"]
    return [*given, *(["--check", "--diff"] if check else []), PLAYBOOK]


def _listen(
    process: subprocess.Popen[str],
    told: _Told,
    seen: Callable[[PlaybookEvent], None],
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
