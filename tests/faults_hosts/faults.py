"""What is done to a host, and how it is made good again. Only its own processes are hit."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults_hosts.fleet import Fleet
from tests.nshosts import NamespaceHost, poll

Heal = Callable[[], None]
PIDFILES = {"libvirtd": "/run/libvirtd.pid", "sshd": "/run/sshd.pid"}
SSH_PORT = "22"
# What a creation over an open connection moves, both ways; a stop moves 12,000.
CUT_RANGE = 32_000


@dataclass(frozen=True, slots=True)
class Fault:
    """``inject`` answers how to heal it; it lasts ``seconds``."""

    name: str
    seconds: float
    inject: Callable[[Fleet, NamespaceHost, random.Random], Heal]


def processes(host: NamespaceHost, name: str) -> Iterator[int]:
    """Processes of that name on the host, as this process numbers them."""
    return (pid for pid, comm in host.processes() if comm == name)


def daemon(host: NamespaceHost, name: str) -> int:
    """The daemon itself, by its pid file."""
    inside = host.path(PIDFILES[name]).read_text().strip()
    return next(pid for pid in processes(host, name) if _inside(pid) == inside)


def sessions(host: NamespaceHost) -> list[int]:
    """What sshd started for its connections."""
    listener = daemon(host, "sshd")
    return [pid for pid in processes(host, "sshd") if pid != listener]


def send(pids: list[int], number: signal.Signals) -> None:
    """One that is gone by now is no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_libvirtd(_fleet: Fleet, host: NamespaceHost, _seed: random.Random) -> Heal:
    """As its own crash; systemd starts it anew."""
    _end(host, "libvirtd")

    def heal() -> None:
        host.path("/run/libvirtd.pid").unlink(missing_ok=True)
        host.libvirt_socket.unlink(missing_ok=True)
        host.start_libvirtd()

    return heal


def kill_sshd(_fleet: Fleet, host: NamespaceHost, _seed: random.Random) -> Heal:
    """The listener alone: what is connected stays so."""
    _end(host, "sshd")
    return lambda: _start_sshd(host)


def kill_sessions(_fleet: Fleet, host: NamespaceHost, _seed: random.Random) -> Heal:
    """Every connection's server: the programs they started go on."""
    send(sessions(host), signal.SIGKILL)
    return _nothing


def pause(*names: str) -> Callable[[Fleet, NamespaceHost, random.Random], Heal]:
    """SIGSTOP daemons, and with sshd its sessions."""

    def inject(_fleet: Fleet, host: NamespaceHost, _seed: random.Random) -> Heal:
        stopped = [pid for name in names for pid in processes(host, name)]
        send(stopped, signal.SIGSTOP)
        return lambda: send(stopped, signal.SIGCONT)

    return inject


def cut(fleet: Fleet, host: NamespaceHost, seed: random.Random) -> Heal:
    """Every connection, after so many bytes more."""
    fleet.proxy.cut_after(host.name, seed.randrange(1, CUT_RANGE))
    return lambda: fleet.proxy.cut_after(host.name, None)


def packets(*rules: tuple[str, ...]) -> Callable[[Fleet, NamespaceHost, random.Random], Heal]:
    """Packet filter rules of the host, taken away again."""

    def inject(_fleet: Fleet, host: NamespaceHost, _seed: random.Random) -> Heal:
        for rule in rules:
            host.run("iptables", "-w", "-I", *rule)

        def heal() -> None:
            for rule in rules:
                host.run("iptables", "-w", "-D", *rule)

        return heal

    return inject


def fill(folder: str) -> Callable[[Fleet, NamespaceHost, random.Random], Heal]:
    """No room is left in the file system of that folder."""

    def inject(_fleet: Fleet, host: NamespaceHost, _seed: random.Random) -> Heal:
        filler = host.path(f"{folder}/filler")
        _fill(filler)
        return filler.unlink

    return inject


def other_key(fleet: Fleet, host: NamespaceHost, _seed: random.Random) -> Heal:
    """The host shows another key than the pinned one: nobody may speak to it."""
    key = host.path("/etc/ssh/host_key")
    pinned = key.read_bytes()
    key.write_bytes(fleet.other_key.read_bytes())
    _restart_sshd(host)

    def heal() -> None:
        key.write_bytes(pinned)
        _restart_sshd(host)

    return heal


IN, OUT = ("INPUT", "-i", "eth0"), ("OUTPUT", "-o", "eth0")
DROP = ("-j", "DROP")
RESET = ("-p", "tcp", "--dport", SSH_PORT, "-j", "REJECT", "--reject-with", "tcp-reset")

FAULTS = (
    Fault("libvirtd-kill", 1, kill_libvirtd),
    Fault("libvirtd-pause-1s", 1, pause("libvirtd")),
    Fault("libvirtd-pause-10s", 10, pause("libvirtd")),
    Fault("sshd-kill", 1, kill_sshd),
    Fault("sshd-sessions-kill", 0, kill_sessions),
    Fault("sshd-pause-1s", 1, pause("sshd")),
    Fault("sshd-pause-10s", 10, pause("sshd")),
    Fault("cut", 8, cut),
    Fault("drop-in", 10, packets((*IN, *DROP))),
    Fault("drop-out", 10, packets((*OUT, *DROP))),
    Fault("drop-both", 10, packets((*IN, *DROP), (*OUT, *DROP))),
    Fault("reject", 5, packets((*IN, *RESET))),
    Fault("disk-full-images-claims", 5, fill("/var/lib")),
    Fault("disk-full-etc-libvirt", 5, fill("/etc/libvirt")),
    Fault("disk-full-run", 5, fill("/run")),
    Fault("host-key", 5, other_key),
)
HUNG = Fault("hung", 0, pause("libvirtd", "sshd"))


def _inside(pid: int) -> str:
    """Its number on its host."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1]
    return ""


def _end(host: NamespaceHost, name: str) -> None:
    pid = daemon(host, name)
    os.kill(pid, signal.SIGKILL)
    poll(lambda: not Path(f"/proc/{pid}/exe").exists(), f"{name} of {host.name} to end")


def _start_sshd(host: NamespaceHost) -> None:
    host.run("/usr/sbin/sshd")
    host.wait()


def _restart_sshd(host: NamespaceHost) -> None:
    open_ = sessions(host)
    _end(host, "sshd")
    send(open_, signal.SIGKILL)
    _start_sshd(host)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for piece in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(piece))


def _nothing() -> None:
    """It heals by itself."""
