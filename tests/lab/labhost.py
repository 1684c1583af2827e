"""The running lab host: looked at from outside as root, used by vgpumgr as gpuadm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DUMP = (HERE / "dump_host.py").read_text()
CALL_S = 300.0
SETTLE_S = 60.0
SUDO_RULE = Path("/etc/sudoers.d/gpuadm")


class LabHost:
    """The host that ``make lab-one`` started."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.address: str = state["address"]
        self.fingerprint: str = state["fingerprint"]
        self._state = state

    @classmethod
    def find(cls) -> LabHost:
        """The running one; AssertionError says how to start it."""
        asked = subprocess.run(
            [sys.executable, HERE / "lab.py", "status", "--json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert asked.returncode == 0, asked.stderr
        return cls(json.loads(asked.stdout))

    def ssh_config(self, folder: Path) -> Path:
        """An SSH configuration that finds the key, as a user would have one."""
        path = folder / "ssh_config"
        path.write_text(f"Host 127.0.0.1\n  IdentityFile {self._state['key']}\n")
        return path

    def root(self, command: str, stdin: str = "") -> str:
        """What a shell command on the host prints; it must succeed."""
        done = self.attempt(command, stdin)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def attempt(self, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A shell command on the host, as root, however it ends."""
        argv = ["ssh", "-F", "none", "-i", self._state["key"], "-p", str(self._state["port"])]
        argv += ["-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"]
        argv += ["-o", f"UserKnownHostsFile={self._state['known_hosts']}", "root@127.0.0.1"]
        return subprocess.run(
            [*argv, command],
            input=stdin, capture_output=True, text=True, timeout=CALL_S, check=False,
        )  # fmt: skip

    def dump(self) -> dict[str, Any]:
        """Drivers, overrides, VFs, types, mdevs, domains, node devices, volumes, claims."""
        return dict(json.loads(self.root("python3 -", DUMP)))

    def settled(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """The dump, as soon as it equals ``wanted``: libvirt hears of devices a little later."""
        deadline = time.monotonic() + SETTLE_S
        while (seen := self.dump()) != wanted and time.monotonic() < deadline:
            time.sleep(1)
        return seen

    def virsh(self, *words: str, stdin: str = "") -> str:
        """One virsh command."""
        return self.root(" ".join(["virsh --quiet --connect qemu:///system", *words]), stdin)

    def make_mdev(self, parent: str, type_id: str, device: str) -> None:
        """An mdev made by hand, behind vgpumgr's back."""
        self.root(f"echo {device} > {self.create_file(parent, type_id)}")

    def drop_mdev(self, device: str) -> None:
        """Take one away by hand."""
        self.root(f"echo 1 > /sys/bus/mdev/devices/{device}/remove")

    @staticmethod
    def create_file(parent: str, type_id: str) -> str:
        return f"/sys/class/mdev_bus/{parent}/mdev_supported_types/{type_id}/create"

    def may_use_sudo(self, allowed: bool) -> None:
        """Give gpuadm the broad rule that enrolling needs, or take it away."""
        if allowed:
            rule = (HERE / "box/files/etc/sudoers.d/gpuadm").read_text()
            self.root(f"umask 337; cat > {SUDO_RULE}.new; mv {SUDO_RULE}.new {SUDO_RULE}", rule)
        else:
            self.root(f"rm -f {SUDO_RULE}")


@dataclass(frozen=True, slots=True)
class Ran:
    """What one command of vgpumgr left."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Vgpumgr:
    """The program as a user types it, with a state folder of its own."""

    def __init__(self, folder: Path, ssh_config: Path) -> None:
        self._folder = folder
        self._settings = {
            "VGPUMGR_STATE_DIR": str(folder / "state"),
            "VGPUMGR_SSH_CONFIG": str(ssh_config),
        }

    def __call__(self, *args: str, code: int = 0) -> Ran:
        """Run one command; it must end with this exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "vgpumgr", *args],
            env={**os.environ, **self._settings}, cwd=self._folder, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=CALL_S, check=False,
        )  # fmt: skip
        told = f"vgpumgr {' '.join(args)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == code, told
        return Ran(done.stdout, done.stderr)

    def file(self, *vms: dict[str, Any]) -> str:
        """A YAML file (JSON is YAML) with one small VM per argument."""
        small = {"apiVersion": "vgpumgr/v1", "kind": "VM", "vcpus": 1, "memory": "256MiB"}
        documents = [json.dumps({**small, "firmware": "bios", **vm}) for vm in vms]
        path = self._folder / "vms.yaml"
        path.write_text("\n---\n".join(documents))
        return str(path)

    def vms(self) -> dict[str, dict[str, Any]]:
        """What ``vm list`` shows, by name."""
        return {vm["name"]: vm for vm in self("vm", "list", "-o", "json").json["items"]}

    def strangers_on(self, device: str) -> list[tuple[str, int]]:
        """What ``map`` shows as foreign on one GPU, with the units it takes."""
        hosts = self("map", "-o", "json").json["items"]
        gpus = [gpu for host in hosts for gpu in host["gpus"] if gpu["device"] == device]
        return [(each["foreign"], each["units"]) for gpu in gpus for each in gpu["usages"]]
