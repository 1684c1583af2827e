"""A guest's serial port: only the pseudoterminal whose other end that very QEMU has."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.helper.test_console import FLEET, NAME, VM, Place
from vgpumgr.domainxml import ownership
from vgpumgr.helper import terminals


class Qemu:
    """A process (this one) that has the other end of a pseudoterminal, raw as QEMU's."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        tty.setraw(slave)
        self.path = os.ttyname(slave)
        self.slave = slave

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def qemu() -> Iterator[Qemu]:
    made = Qemu()
    yield made
    made.close()


def refused(path: str, pid: int) -> int | None:
    with pytest.raises(OSError) as told, terminals.attach(path, pid):
        pass
    return told.value.errno


def test_it_carries_both_directions_until_it_is_shut_down(qemu: Qemu) -> None:
    with terminals.attach(qemu.path, os.getpid()) as terminal:
        os.write(qemu.master, b"login: ")
        assert terminal.recv(100) == b"login: "
        sent = bytes(range(256)) * 400
        got = bytearray()

        def take() -> None:
            while len(got) < len(sent):
                got.extend(os.read(qemu.master, 4096))

        taking = threading.Thread(target=take)
        taking.start()
        terminal.sendall(sent)
        taking.join()
        assert bytes(got) == sent
        waiting = threading.Timer(0.05, terminal.shutdown, [0])
        waiting.start()
        assert terminal.recv(100) == b"", "who waits is woken"
        with pytest.raises(OSError):
            terminal.sendall(b"more")


def test_one_viewer_at_a_time(qemu: Qemu) -> None:
    with terminals.attach(qemu.path, os.getpid()):
        assert refused(qemu.path, os.getpid()) == errno.EBUSY
    with terminals.attach(qemu.path, os.getpid()):
        pass


def test_a_terminal_of_another_process_is_left_alone(qemu: Qemu) -> None:
    """QEMU has ended, and its number is a person's terminal by now."""
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert refused(qemu.path, other.pid) == errno.EXDEV
    other.communicate(b"\n")
    assert refused(qemu.path, other.pid) == errno.EXDEV, "nor of one that is gone"


@pytest.mark.parametrize(
    "path", ["/dev/null", "/dev/pts/ptmx", "/dev/pts/../null", "", "/dev/pts/1x", "/dev/ptmx"]
)
def test_nothing_else_is_opened(path: str) -> None:
    assert refused(path, os.getpid()) == errno.ENOTTY


def test_its_end_is_qemus(qemu: Qemu) -> None:
    with terminals.attach(qemu.path, os.getpid()) as terminal:
        os.close(qemu.master)
        assert terminal.recv(1) == b""
        qemu.master = os.open(os.devnull, os.O_RDONLY)


def test_the_verb_takes_it_from_libvirts_record(tmp_path: Path, qemu: Qemu) -> None:
    place = Place(tmp_path)

    def record(port: str, pid: int | str = os.getpid()) -> None:
        place.write(
            f"<domstatus state='running' pid='{pid}'><domain><metadata>"
            f"<v:vm xmlns:v='{ownership.NAMESPACE}' fleet='{FLEET}' name='{NAME}' id='{VM}' "
            f"generation='1'/></metadata><devices>{port}</devices></domain></domstatus>"
        )

    port = f"<serial type='pty'><source path='{qemu.path}'/></serial>"
    args = {"domain": NAME, "vm": VM, "kind": "serial"}
    record(port)
    answer, connection = place.ask(args=args)
    assert answer == {"ok": True, "result": {}} and connection is not None
    with connection:
        connection.sendall(b"x")
        assert os.read(qemu.master, 1) == b"x"
        assert place.refused(args=args)["code"] == "in-use"
    assert place.refused(args={**args, "vm": "vm-2"})["code"] == "claim-mismatch"
    assert place.refused(args={**args, "kind": "parallel"})["code"] == "bad-argument"
    record(port, 1)
    assert place.refused(args=args)["errno"] == "EXDEV"
    for none in (
        "",
        "<serial type='tcp'><source path='/dev/pts/0'/></serial>",
        "<serial type='unix'><source path='/run/docker.sock'/></serial>",
    ):
        record(none)
        assert place.refused(args=args)["message"] == "desk has no serial console"
    record(port, "x")
    assert place.refused(args=args)["code"] == "refused"
    record(f"<serial type='unix'><source path='{place_socket()}'/></serial>")
    answer, connection = place.ask(args=args)
    assert answer["ok"] and connection is not None
    connection.shutdown(2)
    with connection:
        place.listener.close()


def place_socket() -> str:
    """A socket of QEMU's below libvirt's folder."""
    from tests.unit.helper.test_console import FOLDER

    return f"{FOLDER}/vnc.sock"
