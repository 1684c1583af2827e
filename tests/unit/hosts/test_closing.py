"""A host that hangs does not keep a process from ending."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgpumgr.hosts.deadlines import side_by_side
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostRecord


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and says nothing, as a stopped sshd does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        yield server


def test_connections_that_hang_are_not_waited_for(silent: socket.socket, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.touch()
    hosts = RealHosts(ssh_config=config, connect_timeout_s=90.0)
    address = f"root@127.0.0.1:{silent.getsockname()[1]}"
    record = HostRecord(name="h1", address=address, host_key="SHA256:x")
    ended: list[object] = []

    def probe() -> None:
        try:
            hosts.open(record).probe()
        except VgpumgrError as error:
            ended.append(error)

    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    there, _ = silent.accept()
    began = time.monotonic()
    hosts.close()
    assert time.monotonic() - began < 60
    assert ended == []
    there.close()


def test_what_ends_in_time_is_waited_for() -> None:
    done: list[int] = []
    door = threading.Event()
    side_by_side([lambda: done.append(1), lambda: done.append(2)], 90.0)
    assert sorted(done) == [1, 2]
    side_by_side([lambda: done.append(3), lambda: door.wait(90) and None], 0.5)
    assert not door.is_set() and 3 in done
    door.set()
