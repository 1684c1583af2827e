"""The first process of a namespace host: makes its file systems, starts its daemons, reaps.

Started by ``nshosts.py`` inside new network, mount and PID namespaces, with a JSON order as its one
argument; says ``up`` when the namespaces exist, waits for a line, says ``ready``. The order may
name sizes of its file systems, and a program to run before the daemons.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

OWN = (
    "/run",
    "/var/lib",
    "/etc/libvirt",
    "/var/log/libvirt",
    "/usr/local/lib",
    "/etc/ssh",
    "/etc/sudoers.d",
)

# The last one is for guests that have a network.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net/tun")

SSHD = """\
Port 22
HostKey /etc/ssh/host_key
HostKey /etc/ssh/host_key_ecdsa
PidFile /run/sshd.pid
AuthorizedKeysFile /etc/ssh/authorized_keys
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
MaxStartups 100
"""

# Certificates for migration; a test that wants some puts them there.
PKI = "/etc/libvirt/pki"

LIBVIRTD = """\
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_group = "libvirt"
unix_sock_rw_perms = "0770"
host_uuid = "{uuid}"
"""

QEMU = """\
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
remember_owner = 0
migrate_tls_x509_cert_dir = "{pki}"
migrate_tls_x509_verify = 1
"""

LIBVIRTD_PID = "/run/libvirtd.pid"
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS}

POOL = """\
<pool type='dir'><name>default</name><target><path>/var/lib/libvirt/images</path></target></pool>
"""

NETWORK = "<network><name>default</name><bridge name='virbr0'/></network>\n"


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


def own_devices() -> None:
    """A /dev without /dev/kvm: these hosts run their guests under TCG, on every machine alike."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
    for name in DEVICES:
        if not Path("/dev", name).exists():
            continue
        Path("/mnt", name).parent.mkdir(exist_ok=True)
        Path("/mnt", name).touch()
        run("mount", "--bind", f"/dev/{name}", f"/mnt/{name}")
    for folder in ("pts", "shm"):
        Path("/mnt", folder).mkdir()
    run("mount", "-t", "devpts", "-o", "ptmxmode=666", "devpts", "/mnt/pts")
    Path("/mnt/ptmx").symlink_to("pts/ptmx")
    Path("/mnt/fd").symlink_to("/proc/self/fd")
    run("mount", "--move", "/mnt", "/dev")


def own_file_systems(order: dict[str, Any]) -> None:
    for path in OWN:
        os.makedirs(path, exist_ok=True)
        size = order["sizes"].get(path, "50%")
        run("mount", "-t", "tmpfs", "-o", f"mode=755,size={size}", "tmpfs", path)
    run("mount", "-t", "sysfs", "sysfs", "/sys")
    own_devices()
    run("mount", "--bind", order["cache"], "/var/cache/libvirt")
    for folder in ("/run/sshd", "/var/lib/libvirt/images", "/etc/libvirt/qemu/networks", PKI):
        os.makedirs(folder)
    for name, line in (
        ("passwd", f"gpuadm:x:{order['uid']}:{order['uid']}::/:/bin/sh\n"),
        ("group", f"gpuadm:x:{order['uid']}:\n"),
        ("shadow", "gpuadm:*:19000:0:99999:7:::\n"),
    ):
        own_account_file(Path("/etc") / name, line)


def own_account_file(path: Path, line: str) -> None:
    """A copy of the machine's file in which gpuadm exists and belongs to the group libvirt."""
    lines = path.read_text().splitlines(keepends=True)
    if path.name == "group":
        lines = [
            f"{each.strip()}gpuadm\n" if each.startswith("libvirt:") else each for each in lines
        ]
    if path.name == "passwd":  # a shell that reads no start-up files of the machine's root
        root = f"root:x:0:0:root:{os.path.expanduser('~root')}:/bin/sh\n"
        lines = [root if each.startswith("root:") else each for each in lines]
    copy = Path("/run") / path.name
    copy.write_text("".join(lines) + line)
    copy.chmod(path.stat().st_mode & 0o777)
    run("mount", "--bind", str(copy), str(path))


def write(path: str, text: str, mode: int = 0o600) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    Path(path).chmod(mode)


def penalties() -> str:
    """sshd 9.8 and later shut out a peer that broke off a few times, as these tests do on purpose;
    older ones do not know the word."""
    said = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=True).stderr
    found = re.match(r"OpenSSH_(\d+)\.(\d+)", said)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    return "PerSourcePenalties no\n" if version >= (9, 8) else ""


def configure(order: dict[str, Any]) -> None:
    write("/etc/ssh/sshd_config", SSHD + penalties())
    write("/etc/ssh/host_key", order["host_key"])
    run("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", "/etc/ssh/host_key_ecdsa")
    write("/etc/ssh/authorized_keys", order["authorized_keys"], 0o644)
    write("/etc/libvirt/libvirtd.conf", LIBVIRTD.format(uuid=order["uuid"]))
    write("/etc/libvirt/qemu.conf", QEMU.format(pki=PKI))
    write("/etc/libvirt/storage/default.xml", POOL)
    write("/etc/libvirt/qemu/networks/default.xml", NETWORK)
    Path("/etc/libvirt/storage/autostart").mkdir()
    Path("/etc/libvirt/storage/autostart/default.xml").symlink_to(
        "/etc/libvirt/storage/default.xml"
    )


def start(*argv: str) -> int:
    with open(f"/run/{Path(argv[0]).name}.log", "ab") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log).pid


def start_libvirtd() -> int:
    return start("/usr/sbin/libvirtd", "-p", LIBVIRTD_PID)


def reap(libvirtd: int | None) -> None:
    """Until there is no process more. libvirtd is started again when it crashed, as by systemd
    (``Restart=on-failure``): that of Debian 12 does at times, where it reads a pool of Ceph.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == libvirtd and os.WIFSIGNALED(status) and os.WTERMSIG(status) in CRASHES:
            libvirtd = start_libvirtd()


def main() -> None:
    order = json.loads(sys.argv[1])
    own_file_systems(order)
    configure(order)
    if order["prepare"]:
        run(*order["prepare"])
    print("up", flush=True)
    sys.stdin.readline()
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{order['address']}/24", "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    start("/usr/sbin/sshd", "-D", "-e")
    libvirtd = start_libvirtd() if order["libvirtd"] else None
    print("ready", flush=True)
    reap(libvirtd)


if __name__ == "__main__":
    main()
