"""Real hosts on one machine: each a set of namespaces with its own sshd and libvirtd.

Their addresses (10.77.0.x) exist only inside namespaces made here; the test's own thread, and every
thread it starts, is inside one of them between ``NamespaceFleet()`` and ``close()``. All processes
end with this one.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
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
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

CLONE_NEWNET = 0x40000000
UID = 64999
NEEDS = (
    "/usr/sbin/sshd",
    "/usr/sbin/libvirtd",
    "/usr/bin/qemu-system-x86_64",
    "/usr/bin/virt-ssh-helper",
)

_libc = ctypes.CDLL(None, use_errno=True)


def missing() -> str:
    """Why there can be no namespace hosts here; empty when there can."""
    if os.geteuid() != 0:
        return "not root"
    absent = [path for path in NEEDS if not Path(path).exists()]
    return f"{', '.join(absent)} not installed" if absent else ""


class NamespaceHost:
    """One host. ``fingerprint`` is its SSH key's; ``address()`` what ``host add`` takes."""

    def __init__(self, fleet: NamespaceFleet, number: int, *, libvirtd: bool) -> None:
        self.ip = f"10.77.0.{number + 10}"
        self.name = f"h{number}"
        self.private_key = fleet.folder / f"{self.name}-host-key"
        keygen(self.private_key)
        self.fingerprint = fingerprint(self.private_key.with_suffix(".pub"))
        order = {
            "address": self.ip,
            "uid": UID,
            "cache": str(fleet.cache),
            "libvirtd": libvirtd,
            "prepare": fleet.prepare,
            "sizes": fleet.sizes,
            "uuid": str(uuid.uuid4()),
            "host_key": self.private_key.read_text(),
            "authorized_keys": fleet.key.with_suffix(".pub").read_text(),
        }
        self._process = _spawn(
            "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
            sys.executable, "-I", str(Path(__file__).with_name("nsinit.py")), json.dumps(order),
        )  # fmt: skip
        self.pid = 0
        self._fleet = fleet
        self.ssh_config = fleet.ssh_config

    def connect(self) -> None:
        """Join it to the test's network, once its namespaces exist."""
        self._expect("up")
        parent = self._process.pid
        self.pid = _children(parent)[0]
        self._fleet.join(self.name, self.pid)
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._expect("ready")

    def wait(self) -> None:
        """Until sshd and, if it has one, libvirtd answer."""
        poll(lambda: _answers(self.ip), f"sshd of {self.name}")

    def wait_for_libvirtd(self) -> None:
        """Until its socket exists."""
        poll(self.libvirt_socket.exists, f"libvirtd of {self.name}")

    @property
    def libvirt_socket(self) -> Path:
        """libvirtd's socket as this process sees it."""
        return Path(f"/proc/{self.pid}/root/run/libvirt/libvirt-sock")

    def path(self, inside: str) -> Path:
        """A path of the host as this process sees it."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def address(self, user: str = "root") -> str:
        """``USER@IP``."""
        return f"{user}@{self.ip}"

    @property
    def enter(self) -> tuple[str, ...]:
        """Put before a command line, it runs on the host."""
        return ("nsenter", "-t", str(self.pid), "-m", "-n", "-p", "--")

    def run(self, *argv: str) -> str:
        """Run a program on the host and return its output."""
        return subprocess.run(
            [*self.enter, *argv], check=True, capture_output=True, text=True
        ).stdout

    def processes(self) -> Iterator[tuple[int, str]]:
        """Its processes but the first: their ids as this process sees them, and their names."""
        waiting = _children(self.pid)
        while waiting:
            pid = waiting.pop()
            waiting += _children(pid)
            with contextlib.suppress(OSError):
                yield pid, Path(f"/proc/{pid}/comm").read_text().strip()

    def signal_libvirtd(self, number: signal.Signals) -> None:
        """Send a signal to its libvirtd."""
        self.run("sh", "-c", f'kill -{int(number)} "$(cat /run/libvirtd.pid)"')

    @property
    def libvirtd_pid(self) -> str:
        """The process of its libvirtd; another one after a crash."""
        return self.path("/run/libvirtd.pid").read_text().strip()

    def stop_libvirtd(self) -> None:
        """End libvirtd and wait until it is gone; its socket stays behind, or not."""
        pid = self.libvirtd_pid
        self.signal_libvirtd(signal.SIGTERM)
        poll(lambda: not self.path(f"/proc/{pid}/cmdline").is_file(), "libvirtd to end")

    def start_libvirtd(self) -> None:
        """Start libvirtd and wait for its socket."""
        self.run("sh", "-c", "libvirtd -d -p /run/libvirtd.pid")
        self.wait_for_libvirtd()

    def close(self) -> None:
        """End everything on it at once; when this returns, nothing there answers any more."""
        self._process.kill()
        self._process.communicate()
        if self.pid:
            poll(lambda: _has_ended(self.pid), f"{self.name} to end")

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != word:
            raise RuntimeError(f"{self.name} did not come {word}: {self._process.communicate()[1]}")


class NamespaceFleet:
    """Some hosts and the test's side of their network.

    ``prepare`` is run on each before its daemons start; ``sizes`` bounds file systems of theirs
    (``{"/var/lib": "64m"}``).
    """

    def __init__(
        self,
        count: int,
        *,
        libvirtd: bool = True,
        prepare: Sequence[str] = (),
        sizes: Mapping[str, str] | None = None,
    ) -> None:
        self.prepare = list(prepare)
        self.sizes = dict(sizes or {})
        self.folder = Path(tempfile.mkdtemp(prefix="nshosts-"))
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        self.key = self.folder / "id"
        keygen(self.key)
        self.ssh_config = self.folder / "ssh_config"
        self.ssh_config.write_text(f"IdentityFile {self.key}\nIdentitiesOnly yes\n")
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._side = _spawn("unshare", "--net", "sh", "-c", "echo up; exec sleep infinity")
        assert self._side.stdout is not None
        self._side.stdout.readline()
        # A bridge without an address of its own takes its ports' lowest, and another one with the
        # host that has it: the others would speak to the old one until their caches are old.
        bridge = "link add br0 address 02:00:00:00:00:01 type bridge forward_delay 0"
        self._ip("link set lo up", bridge)
        self._ip("address add 10.77.0.1/24 dev br0", "link set br0 up")
        _enter_net(f"/proc/{self._side.pid}/ns/net")
        self.hosts: list[NamespaceHost] = []
        try:
            self.add(count, libvirtd=libvirtd)
        except BaseException:
            self.close()
            raise

    def add(self, count: int, *, libvirtd: bool = True) -> list[NamespaceHost]:
        """More hosts, ready when this returns."""
        first = len(self.hosts)
        fresh = [NamespaceHost(self, first + i, libvirtd=libvirtd) for i in range(count)]
        self.hosts += fresh
        for host in fresh:
            host.connect()
        for host in fresh:
            host.wait()
            if libvirtd:
                host.wait_for_libvirtd()
        return fresh

    def join(self, name: str, pid: int) -> None:
        """A cable between the test's bridge and the host of that process."""
        self._ip(
            f"link add {name} type veth peer name eth0 netns {pid}",
            f"link set {name} master br0 up",
        )

    def cable(self, name: str, state: str) -> None:
        """Pull a host's cable (``down``), or plug it in again (``up``)."""
        self._ip(f"link set {name} {state}")

    def close(self) -> None:
        """End all hosts and come back to the machine's own network namespace."""
        for host in self.hosts:
            host.close()
        _setns(self._home)
        os.close(self._home)
        self._side.kill()
        self._side.communicate()
        shutil.rmtree(self.folder)

    def _ip(self, *commands: str) -> None:
        subprocess.run(
            ["nsenter", "-t", str(self._side.pid), "-n", "ip", "-batch", "-"],
            input="\n".join(commands), text=True, check=True,
        )  # fmt: skip


def _has_ended(pid: int) -> bool:
    """Is a process gone, or waiting to be reaped? A namespace's first outlives all others in it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def poll(check: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Until ``check()`` is true; TimeoutError otherwise."""
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(0.02)


def _spawn(*argv: str) -> subprocess.Popen[str]:
    """A process that ends with this one, whatever ends this one."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _children(pid: int) -> list[int]:
    """Of all its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def _enter_net(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(fd)
    finally:
        os.close(fd)


def _setns(fd: int) -> None:
    if _libc.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def keygen(path: Path) -> None:
    """A new SSH key pair: the private key at that path, the public one beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


def fingerprint(public: Path) -> str:
    """``SHA256:…`` of a public key file."""
    blob = base64.b64decode(public.read_text().split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _answers(ip: str) -> bool:
    try:
        with socket.create_connection((ip, 22), 1.0) as sock:
            return sock.recv(4) == b"SSH-"
    except OSError:
        return False
