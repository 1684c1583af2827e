"""A host that hangs does not keep a process from ending."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgpumgr.hosts.deadline import side_by_side
from vgpumgr.hosts.real import RealHosts
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostRecord


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing, as a stopped sshd does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_connections_that_hang_are_not_waited_for(silent: int, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.touch()
    hosts = RealHosts(ssh_config=config, connect_timeout_s=30.0)
    record = HostRecord(name="h1", address=f"root@127.0.0.1:{silent}", host_key="SHA256:x")
    asking = threading.Event()
    ended: list[object] = []

    def probe() -> None:
        asking.set()
        try:
            hosts.open(record).probe()
        except VgpumgrError as error:
            ended.append(error)

    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    assert asking.wait(10)
    time.sleep(0.2)
    began = time.monotonic()
    hosts.close()
    assert time.monotonic() - began < 10
    assert ended == []


def test_what_ends_in_time_is_waited_for() -> None:
    done: list[int] = []
    door = threading.Event()
    began = time.monotonic()
    side_by_side([lambda: done.append(1), lambda: done.append(2)], 30.0)
    assert sorted(done) == [1, 2] and time.monotonic() - began < 20
    side_by_side([lambda: done.append(3), lambda: door.wait(30) and None], 0.2)
    assert 3 in done and time.monotonic() - began < 20
    door.set()
