"""The files that a run of Ansible goes by, in a folder that is gone afterwards.

Nothing of the user's own Ansible counts, and nothing stands in an argument list: inventory,
variables, SSH configuration and pinned keys are files that only we may read.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpumgr.app.bootstrap.collection import CALLBACK, collections_folder
from vgpumgr.hosts.ssh.openssh import OpenSshWay

_PASSED_ON = ("HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "TMPDIR", "USER")


@dataclass(frozen=True, slots=True)
class Workplace:
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
        ways: Sequence[OpenSshWay],
    ) -> None:
        """Write everything. JSON is YAML, too."""
        inventory = {"all": {"hosts": {name: dict(each) for name, each in hosts.items()}}}
        self.write(self.inventory.name, json.dumps(inventory).encode())
        self.write(self.variables.name, json.dumps(dict(variables)).encode())
        self.write("ssh_config", "\n".join(way.config for way in ways).encode())
        self.write("known_hosts", "".join(way.known_hosts for way in ways).encode())
        self.write("ansible.cfg", b"")

    def environ(self, outer: Mapping[str, str], forks: int) -> dict[str, str]:
        """All that Ansible gets to see of our environment, and its settings."""
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
