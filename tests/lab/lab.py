"""One lab host with real mediated devices and display devices: up, down, status, ssh.

The host is a Debian guest under QEMU, reachable only at 127.0.0.1 and without a way out. Its disk
is built once per recipe (tests/lab/box) and kept under .lab/; every ``up`` starts from a fresh
overlay of it. Facts and costs: docs/lab.md.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECIPE = Path(__file__).with_name("box")
LAB = ROOT / ".lab"
STATE = LAB / "one"
USER = "gpuadm"
BOOT_DEADLINE_S = 900.0  # SSH answers after 40 s on two free cores, after 207 s on shared ones
STOP_DEADLINE_S = 60.0
KVM_PROBE_S = 30.0
READY = "udevadm settle && virsh --quiet --connect qemu:///system pool-info default"
KERNEL_ARGUMENTS = (
    "root=/dev/vda rw console=ttyS0 quiet mitigations=off intel_iommu=on iommu=pt"
    # Nested KVM under emulation would only hide that the host has none.
    " modprobe.blacklist=kvm_intel,kvm_amd"
)


class LabError(Exception):
    """The lab could not be brought up or down; the text says why."""


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def recipe_key() -> str:
    """Names the box by everything that goes into it."""
    digest = hashlib.sha256()
    for path in sorted(p for p in RECIPE.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(RECIPE)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def box() -> Path:
    """The box of the present recipe, built when it is not there yet; .lab/box leads to it."""
    path = LAB / f"box-{recipe_key()}"
    if not path.is_dir():
        build(path)
    link = LAB / "box"
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)
    return path


def build(path: Path) -> None:
    """Build beside ``path`` and rename, so that half a box is never taken for a whole one."""
    if os.geteuid() != 0:
        raise LabError("building the box needs root")
    say("building the box, once per recipe: about 2 minutes")
    LAB.mkdir(exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix="building-", dir=LAB))
    try:
        subprocess.run([RECIPE / "build.sh", building], check=True)
        building.chmod(0o755)
        building.rename(path)
    except subprocess.CalledProcessError as error:
        raise LabError(f"the box could not be built: {error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def kvm_works(box: Path) -> bool:
    """Whether the box's kernel boots under KVM: banner and clean exit in time, tried once.

    /dev/kvm may open on a machine where Linux then hangs in it.
    """
    remembered = box / f"kvm-{os.uname().release}"
    if not remembered.exists():
        remembered.write_text(json.dumps(_probe_kvm(box)))
    return bool(json.loads(remembered.read_text()))


def _probe_kvm(box: Path) -> bool:
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    # Without a root disk the kernel panics, and panic=-1 makes that an exit.
    argv = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "max", "-m", "512", "-nodefaults"]
    argv += ["-display", "none", "-serial", "stdio", "-no-reboot", "-kernel", str(box / "vmlinuz")]
    argv += ["-append", "console=ttyS0 panic=-1"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=KVM_PROBE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and b"Linux version" in done.stdout


def qemu_argv(box: Path, port: int) -> list[str]:
    """The lab host: an IOMMU, and two displays each alone in its IOMMU group."""
    accelerator = "kvm" if kvm_works(box) else "tcg,thread=multi"
    say(f"running under {accelerator.partition(',')[0].upper()}")
    argv = ["qemu-system-x86_64", "-name", "vgpumgr-lab-one", "-nodefaults", "-display", "none"]
    argv += ["-machine", "q35,kernel-irqchip=split", "-accel", accelerator]
    argv += ["-cpu", "max", "-smp", "2", "-m", "2560"]
    argv += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
    argv += ["-kernel", str(box / "vmlinuz"), "-initrd", str(box / "initrd.img")]
    argv += ["-append", KERNEL_ARGUMENTS]
    argv += ["-drive", f"if=none,id=root,file={STATE / 'disk.qcow2'},format=qcow2,cache=unsafe"]
    argv += ["-device", "virtio-blk-pci,drive=root,addr=2"]
    argv += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"]
    argv += ["-device", "virtio-net-pci,netdev=net,addr=3"]
    for number in (1, 2):
        argv += ["-device", f"pcie-root-port,id=port{number},chassis={number},addr={3 + number}"]
        argv += ["-device", f"bochs-display,bus=port{number}"]
    argv += ["-serial", f"file:{STATE / 'console.log'}"]
    return [*argv, "-pidfile", str(STATE / "pid"), "-daemonize"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def running_pid() -> int | None:
    """The lab's own QEMU, or None; a pid that now belongs to something else is not ours."""
    try:
        pid = int((STATE / "pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if str(STATE / "disk.qcow2").encode() in command else None


def ssh_argv(state: dict[str, Any], user: str = USER) -> list[str]:
    argv = ["ssh", "-q", "-F", "none", "-i", state["key"], "-p", str(state["port"])]
    argv += ["-o", f"UserKnownHostsFile={state['known_hosts']}", "-o", "IdentitiesOnly=yes"]
    return [*argv, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", f"{user}@127.0.0.1"]


def wait_until_ready(state: dict[str, Any]) -> None:
    """Poll until SSH answers, udev has settled and libvirt serves its storage pool."""
    deadline = time.monotonic() + BOOT_DEADLINE_S
    while time.monotonic() < deadline:
        if running_pid() is None:
            raise LabError(f"QEMU ended; see {STATE / 'console.log'}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            answer = subprocess.run(
                [*ssh_argv(state), READY],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
            )  # fmt: skip
            if answer.returncode == 0:
                return
        time.sleep(1)
    raise LabError(f"no answer after {BOOT_DEADLINE_S:.0f} s; see {STATE / 'console.log'}")


def start(box: Path) -> dict[str, Any]:
    """A fresh overlay, a free port, QEMU in the background."""
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(parents=True)
    overlay = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(box / "disk.img")]
    subprocess.run([*overlay, str(STATE / "disk.qcow2")], check=True)
    port, host_key = free_port(), (box / "host_key.pub").read_text()
    (STATE / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    printed = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(box / "host_key.pub")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    state = {
        "address": f"{USER}@127.0.0.1:{port}",
        "port": port,
        "key": str(box / "id_ed25519"),
        "known_hosts": str(STATE / "known_hosts"),
        "fingerprint": printed.stdout.split()[1],
    }
    (STATE / "state.json").write_text(json.dumps(state, indent=1))
    subprocess.run(qemu_argv(box, port), check=True)
    return state


def current() -> dict[str, Any]:
    """The running lab host; LabError when there is none."""
    if running_pid() is None:
        raise LabError("no lab host is running; start it with: make lab-one")
    return dict(json.loads((STATE / "state.json").read_text()))


def show(state: dict[str, Any]) -> None:
    for name in ("address", "fingerprint", "key"):
        print(f"{name:12} {state[name]}")


def up() -> None:
    began = time.monotonic()
    if running_pid() is None:
        state = start(box())
        say("waiting for the host to boot")
    else:
        state = current()
    wait_until_ready(state)
    say(f"ready after {time.monotonic() - began:.0f} s")
    show(state)


def down() -> None:
    pid = running_pid()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_DEADLINE_S
        while running_pid() is not None:
            if time.monotonic() > deadline:
                raise LabError(f"QEMU (pid {pid}) does not end")
            time.sleep(0.1)
    shutil.rmtree(STATE, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="build the box if needed, start the host, wait for it")
    commands.add_parser("box", help="build the box if needed, print where it is")
    commands.add_parser("down", help="stop it and forget its disk")
    commands.add_parser("status", help="address, key, fingerprint").add_argument(
        "--json", action="store_true"
    )
    commands.add_parser("ssh", help="log in").add_argument("argv", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    try:
        match arguments.command:
            case "up":
                up()
            case "box":
                print(box())
            case "down":
                down()
            case "status":
                state = current()
                print(json.dumps(state)) if arguments.json else show(state)
            case "ssh":
                command = ssh_argv(current()) + arguments.argv
                os.execvp(command[0], command)
    except LabError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
