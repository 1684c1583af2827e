"""The bridge and the deadlines: what blocks returns when it is told to."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgpumgr.hosts.deadlines import Deadlines
from vgpumgr.hosts.libvirt.libvirt_bridge import LibvirtBridge, SocketStream
from vgpumgr.hosts.libvirt.libvirt_link import LibvirtLink
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable


class Far:
    """The far end of a bridge, with our hand on it."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.last_words = ""

    def recv(self, size: int) -> bytes:
        return self.theirs.recv(size)

    def sendall(self, data: bytes) -> None:
        self.theirs.sendall(data)

    def complaint(self) -> str:
        return self.last_words

    def close(self) -> None:
        try:
            self.theirs.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.theirs.close()


@pytest.fixture
def far() -> Iterator[Far]:
    made = Far()
    yield made
    made.close()
    made.ours.close()


@pytest.fixture
def bridge(far: Far) -> Iterator[LibvirtBridge]:
    made = LibvirtBridge(far)
    yield made
    made.cut()


def path_of(bridge: LibvirtBridge) -> Path:
    return Path(bridge.uri.partition("socket=")[2])


def join(bridge: LibvirtBridge) -> socket.socket:
    near = socket.socket(socket.AF_UNIX)
    near.settimeout(10)
    near.connect(str(path_of(bridge)))
    return near


def test_bytes_go_both_ways(bridge: LibvirtBridge, far: Far) -> None:
    with join(bridge) as near:
        near.sendall(b"ping")
        assert far.ours.recv(4) == b"ping"
        far.ours.sendall(b"pong")
        assert near.recv(4) == b"pong"


def test_only_we_can_reach_it_and_only_once(bridge: LibvirtBridge, far: Far) -> None:
    path = path_of(bridge)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.parent.stat().st_uid == os.geteuid()
    with join(bridge) as near:
        near.sendall(b"x")
        assert far.ours.recv(1) == b"x"
        assert not path.parent.exists()
        with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as second:
            second.connect(str(path))


def test_a_cut_wakes_who_waits_on_either_side(bridge: LibvirtBridge, far: Far) -> None:
    with join(bridge) as near:
        near.sendall(b"x")
        assert far.ours.recv(1) == b"x"
        bridge.cut()
        bridge.cut()
        assert near.recv(1) == b""
        assert far.ours.recv(1) == b""
        assert not bridge.alive


def test_a_cut_before_anybody_came_leaves_nothing(bridge: LibvirtBridge) -> None:
    bridge.cut()
    assert not path_of(bridge).parent.exists()


def test_the_far_ends_last_words_are_kept(bridge: LibvirtBridge, far: Far) -> None:
    far.last_words = "virt-ssh-helper: command not found"
    with join(bridge) as near:
        far.ours.shutdown(socket.SHUT_RDWR)
        assert near.recv(1) == b""
        assert bridge.complaint == far.last_words
        assert not bridge.alive


def test_a_missing_local_socket_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SocketStream(tmp_path / "nosuch", 1.0)


def test_a_libvirt_that_never_answers_is_cut_at_the_deadline(far: Far) -> None:
    link = LibvirtLink("h1", lambda: LibvirtBridge(far), connect_s=0.2, call_s=0.2)
    with pytest.raises(DeadlineExceeded, match="h1 does not answer"):
        link.read(lambda libvirt: libvirt.versions())
    link.close()


def test_closing_does_not_wait_for_a_call_that_hangs() -> None:
    made: list[Far] = []
    opened = threading.Event()

    def silent() -> LibvirtBridge:
        made.append(Far())
        opened.set()
        return LibvirtBridge(made[-1])

    link = LibvirtLink("h1", silent, connect_s=60, call_s=60)
    errors: list[Exception] = []

    def look() -> None:
        try:
            link.read(lambda libvirt: libvirt.versions())
        except HostUnreachable as error:
            errors.append(error)

    caller = threading.Thread(target=look)
    caller.start()
    assert opened.wait(60) and made[0].ours.recv(1), "libvirt has begun to talk"
    link.close()
    caller.join(timeout=60)
    assert len(errors) == 1 and len(made) == 1
    made[0].ours.close()


def test_a_libvirt_that_hangs_up_is_unreachable_with_its_reason() -> None:
    made: list[Far] = []

    def refusing() -> LibvirtBridge:
        far = Far()
        far.last_words = "no such socket"
        far.ours.close()
        made.append(far)
        return LibvirtBridge(far)

    link = LibvirtLink("h1", refusing, connect_s=5, call_s=5)
    with pytest.raises(HostUnreachable) as caught:
        link.read(lambda libvirt: libvirt.versions())
    assert caught.value.why == "no such socket"
    assert len(made) == 2, "a daemon that has just exited gets a second chance"
    link.close()


def test_deadlines_fire_in_order_and_not_after_the_call_returned() -> None:
    deadlines, fired = Deadlines(), []
    both = threading.Event()

    def note(name: str) -> None:
        fired.append(name)
        if len(fired) == 2:
            both.set()

    with deadlines.within(0.1, lambda: note("returned in time")) as quick:
        pass
    with (
        deadlines.within(0.3, lambda: note("late")) as late,
        deadlines.within(0.05, lambda: note("early")) as early,
    ):
        assert both.wait(60)
    assert fired == ["early", "late"]
    assert early.fired and late.fired and not quick.fired


def test_a_cut_that_blocks_does_not_hold_up_another_hosts_deadline() -> None:
    deadlines, release, done = Deadlines(), threading.Event(), threading.Event()
    with (
        deadlines.within(0.01, lambda: release.wait(60) and None),
        deadlines.within(0.05, done.set),
    ):
        assert done.wait(60)
        release.set()
