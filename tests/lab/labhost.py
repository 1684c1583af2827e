"""The running lab hosts: looked at from outside as root, used by vgpumgr as its own user."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUN = HERE.parents[1] / ".lab/run"
DUMP = (HERE / "dump_host.py").read_text()
VIRSH = "virsh --quiet --connect qemu:///system"
CALL_S = 600.0
CONNECT_S, ANSWER_S = 60.0, 180.0  # emulated hosts are slow
SETTLE_S = 120.0
BOOT_S = 900.0
POLL_S = 1.0


def known() -> dict[str, dict[str, str]]:
    """The hosts that are up, by name."""
    path = RUN / "hosts.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


class LabHost:
    """One host that ``make lab-up`` started; it answers in the lab's own network alone."""

    def __init__(self, name: str, state: dict[str, str]) -> None:
        self.name = name
        self.ip = state["address"]
        self.fingerprint = state["fingerprint"]
        self.console = Path(state["console"])
        self._state = state

    @classmethod
    def named(cls, name: str) -> LabHost:
        """AssertionError says how to start it."""
        hosts = known()
        assert name in hosts, f"{name} is down; start it with: make lab-up"
        return cls(name, hosts[name])

    @property
    def address(self) -> str:
        """By whom a bare host is reached: an administrator with sudo."""
        return f"gpuadm@{self.ip}"

    @property
    def enrolled_address(self) -> str:
        """By whom vgpumgr comes after the setup."""
        return f"vgpumgr@{self.ip}"

    def root(self, command: str, stdin: str = "") -> str:
        """What a shell command on the host prints; it must succeed."""
        done = self.attempt(command, stdin)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def attempt(
        self, command: str, stdin: str = "", timeout_s: float = CALL_S
    ) -> subprocess.CompletedProcess[str]:
        """A shell command on the host, as root, however it ends."""
        argv = ["ssh", "-q", "-F", "none", "-i", self._state["key"], "-o", "BatchMode=yes"]
        argv += ["-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=10"]
        argv += ["-o", f"UserKnownHostsFile={self._state['known_hosts']}", f"root@{self.ip}"]
        return subprocess.run(
            [*argv, command],
            input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def boot_id(self) -> str:
        """A random id of this boot."""
        return self.root("cat /proc/sys/kernel/random/boot_id")

    def reboot(self) -> None:
        """Off and on again; afterwards all services have started and udev has settled.

        Nothing is shut down: VMs that are nothing but firmware would keep the host for minutes.
        """
        self.root("sync")
        self.cut_power()

    def cut_power(self) -> None:
        """The same in the middle of everything."""
        before = self.boot_id()
        machine = ["virsh", "--connect", "qemu:///system", "reset", f"vgpumgr-{self.name}"]
        subprocess.run(machine, check=True, capture_output=True)
        self._wait_for_another_boot(before)

    def _wait_for_another_boot(self, before: str) -> None:
        deadline = time.monotonic() + BOOT_S
        while (now := self._boot_id_if_it_answers()) in {"", before}:
            assert time.monotonic() < deadline, f"no answer; see {self.console}"
            time.sleep(POLL_S)
        # "degraded" is for the tests to judge.
        self.attempt("systemctl is-system-running --wait; udevadm settle")
        assert self.boot_id() == now

    def _boot_id_if_it_answers(self) -> str:
        try:
            done = self.attempt("cat /proc/sys/kernel/random/boot_id", timeout_s=60)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    def dump(self) -> dict[str, Any]:
        """Drivers, overrides, VFs, types, mdevs, domains, node devices, volumes, claims."""
        return dict(json.loads(self.root("python3 -", DUMP)))

    def settled(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """The dump, as soon as it equals ``wanted``: libvirt hears of devices a little later."""
        deadline = time.monotonic() + SETTLE_S
        while (seen := self.dump()) != wanted and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return seen

    def virsh(self, *words: str, stdin: str = "") -> str:
        """One virsh command."""
        return self.root(" ".join([VIRSH, *words]), stdin)

    def vfio_groups_of(self, domain: str) -> set[str]:
        """The VFIO groups that the domain's QEMU has open."""
        pid = self.root(f"cat /run/libvirt/qemu/{domain}.pid")
        held = self.root(
            f"readlink /proc/{pid}/fd/* | grep ^/dev/vfio/ | grep -v vfio/vfio || true"
        )
        return {path.removeprefix("/dev/vfio/") for path in held.splitlines()}

    def group_of(self, device: str) -> str:
        """The VFIO group of an mdev or a PCI function."""
        bus = "pci" if re.fullmatch(r"[0-9a-f]{4}:.*", device) else "mdev"
        return self.root(f"basename $(readlink /sys/bus/{bus}/devices/{device}/iommu_group)")

    def make_mdev(self, parent: str, type_id: str, device: str) -> None:
        """An mdev made by hand, behind vgpumgr's back."""
        self.root(f"echo {device} > {self.create_file(parent, type_id)}")

    def drop_mdev(self, device: str) -> None:
        """Take one away by hand."""
        self.root(f"echo 1 > /sys/bus/mdev/devices/{device}/remove")

    @staticmethod
    def create_file(parent: str, type_id: str) -> str:
        return f"/sys/class/mdev_bus/{parent}/mdev_supported_types/{type_id}/create"


@dataclass(frozen=True, slots=True)
class Ran:
    """What one command of vgpumgr left."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Vgpumgr:
    """The program as a user types it. Its fleet lives as long as the lab runs."""

    def __init__(self, folder: Path, state: Path, ssh_config: Path) -> None:
        self._folder = folder
        self._settings = {
            "VGPUMGR_STATE_DIR": str(state),
            "VGPUMGR_SSH_CONFIG": str(ssh_config),
            "VGPUMGR_CONNECT_TIMEOUT_S": str(CONNECT_S),
            "VGPUMGR_CALL_TIMEOUT_S": str(ANSWER_S),
        }

    def __call__(self, *args: str, code: int = 0, timeout_s: float = CALL_S) -> Ran:
        """Run one command; it must end with this exit code."""
        with self.begin(*args) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        told = f"vgpumgr {' '.join(args)}: exit {process.returncode}\n{out}\n{err}"
        assert process.returncode == code, told
        return Ran(out, err)

    def begin(self, *args: str) -> subprocess.Popen[str]:
        """Start one command."""
        return subprocess.Popen(
            [sys.executable, "-m", "vgpumgr", *args],
            env={**os.environ, **self._settings}, cwd=self._folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def file(self, *vms: dict[str, Any]) -> str:
        """A YAML file (JSON is YAML) with one small VM per argument."""
        small = {"apiVersion": "vgpumgr/v1", "kind": "VM", "vcpus": 1, "memory": "256MiB"}
        documents = [json.dumps({**small, "firmware": "bios", **vm}) for vm in vms]
        path = self._folder / "vms.yaml"
        path.write_text("\n---\n".join(documents))
        return str(path)

    def hosts(self) -> set[str]:
        """The names of all hosts in the fleet."""
        return {host["name"] for host in self("host", "list", "-o", "json").json["items"]}

    def vms(self) -> dict[str, dict[str, Any]]:
        """What ``vm list`` shows, by name."""
        return {vm["name"]: vm for vm in self("vm", "list", "-o", "json").json["items"]}

    def delete_all(self) -> None:
        """Delete every VM of ours."""
        ours = [name for name, vm in self.vms().items() if vm["owner"] == "vgpumgr"]
        if ours:
            self("vm", "delete", *ours, "-y", "--force")

    def strangers_on(self, device: str) -> list[tuple[str, int]]:
        """What ``map`` shows as foreign on one GPU, with the units it takes."""
        hosts = self("map", "-o", "json").json["items"]
        gpus = [gpu for host in hosts for gpu in host["gpus"] if gpu["device"] == device]
        return [(each["foreign"], each["units"]) for gpu in gpus for each in gpu["usages"]]
