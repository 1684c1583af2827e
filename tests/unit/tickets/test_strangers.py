"""Other users of the machine at a ticket's door: what they try, and that it leads nowhere."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests import strangers
from tests.e2e.support import until
from tests.unit.tickets.test_console_proxy import Scene
from tests.vncviewer import Viewer
from vgpumgr.app import console_proxy as doors

pytestmark = pytest.mark.root

# Four connections, so that nobody listens any more; then the port, and the viewer's own answer to
# the challenge of the real door.
TAKE_OVER = """
import socket, sys, time
port = int(sys.argv[1])
def read(sock, size):
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError
        data += piece
    return data
doors = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(4)]
challenge = b""
try:
    read(doors[0], 12)
    doors[0].sendall(b"RFB 003.008\\n")
    read(doors[0], 2)
    doors[0].sendall(b"\\2")
    challenge = read(doors[0], 16)
except ConnectionError:
    print("turned away,", end=" ")
until, bound = time.monotonic() + 2, None
while bound is None and time.monotonic() < until:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", port))
        made.listen()
        bound = made
    except OSError:
        made.close()
        time.sleep(0.02)
if bound is None:
    print("the port is taken", flush=True)
    sys.exit()
print("listens in its place", flush=True)
viewer, _ = bound.accept()
viewer.sendall(b"RFB 003.008\\n")
read(viewer, 12)
viewer.sendall(b"\\1\\2")
read(viewer, 1)
viewer.sendall(challenge)
doors[0].sendall(read(viewer, 16))
answer = read(doors[0], 4)
viewer.sendall(answer)
doors[0].sendall(b"\\1")
read(doors[0], 20)
size = int.from_bytes(read(doors[0], 4), "big")
print("sees the screen of", read(doors[0], size).decode(), flush=True)
time.sleep(60)
"""

BIND = """
import socket, sys
for family, host in ((2, "127.0.0.1"), (2, "0.0.0.0"), (10, "::")):
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        made = socket.socket(family)
        made.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            made.bind((host, int(sys.argv[1])))
            made.listen()
            print(host, option)
        except OSError:
            pass
"""

CONNECT = """
import socket, sys
for _ in range(int(sys.argv[2])):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20) as tried:
        try:
            print(tried.recv(12).decode().strip() or "nothing")
        except ConnectionError:
            print("nothing")
"""


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.door.close()


def port(scene: Scene) -> str:
    return scene.door.address.rpartition(":")[2]


def test_nobody_else_takes_over_the_screen(scene: Scene) -> None:
    with strangers.start(TAKE_OVER, port(scene)) as thief:
        try:
            assert thief.stdout is not None
            began = thief.stdout.readline().strip()
            with suppress(OSError, AssertionError), Viewer(scene.door.address) as viewer:
                assert viewer.log_in(scene.password) == ""
                if "listens" not in began:
                    assert viewer.screen().name == "desk (simulated)"
            seen = thief.stdout.readline().strip() if "listens" in began else ""
        finally:
            thief.kill()
    assert seen == "", "a stranger is in the middle"
    assert began == "turned away, the port is taken"
    assert scene.ended() == "the viewer disconnected", "and the viewer was served"


def test_the_port_is_nobody_elses_while_a_viewer_is_joined(scene: Scene) -> None:
    with Viewer(scene.door.address) as viewer:
        assert viewer.log_in(scene.password) == ""
        viewer.screen()
        assert strangers.said(BIND, port(scene)) == ""


def test_strangers_spoil_no_ticket(scene: Scene) -> None:
    heard = strangers.said(CONNECT, port(scene), "6").split()
    assert heard == ["nothing"] * 6, "not even a version"
    assert scene.door.look().ended == ""
    with Viewer(scene.door.address) as viewer:
        assert viewer.log_in(scene.password) == ""


def test_a_ticket_is_for_its_askers_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The asker and `serve` may be two users."""
    given = doors.LoopbackProxies.open
    monkeypatch.setattr(
        doors.LoopbackProxies, "open", lambda *args: given(*args, uids=(strangers.UID,))
    )
    scene = Scene()
    try:
        assert strangers.said(CONNECT, port(scene), "1").startswith("RFB")
    finally:
        scene.door.close()


def test_who_says_nothing_is_not_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "ADMIT_S", 0.05, raising=False)
    with Viewer(scene.door.address) as silent:
        silent.socket.settimeout(10)
        with suppress(TimeoutError):
            assert silent.read(12)
            assert silent.ended()
            return
    pytest.fail("the door waits for ever")


def test_who_waits_at_the_door_keeps_nobody_out_for_long(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than may try at once: the next one is let in when their time is over."""
    monkeypatch.setattr(doors, "ADMIT_S", 0.3, raising=False)
    waiting = [Viewer(scene.door.address) for _ in range(8)]

    def let_in() -> bool:
        with suppress(OSError), Viewer(scene.door.address) as viewer:
            return viewer.log_in(scene.password) == ""
        return False

    try:
        until(let_in, "a later viewer is let in")
    finally:
        for each in waiting:
            each.socket.close()
    assert scene.ended() == "the viewer disconnected"


def test_the_kernel_says_whose_program_it_is() -> None:
    from vgpumgr.app.console_proxy import peer_uid

    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.create_server((host, 0), family=family) as listener:
            listener.settimeout(30)
            address = listener.getsockname()[:2]
            with socket.create_connection(address), listener.accept()[0] as met:
                assert peer_uid(met) == 0
            program = (
                "import socket, sys\n"
                "with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as made:\n"
                "    made.recv(1)"
            )
            with strangers.start(program, host, str(address[1])) as stranger:
                with listener.accept()[0] as met:
                    assert peer_uid(met) == strangers.UID
                stranger.wait(30)


def test_a_socket_that_was_closed_is_nobodys() -> None:
    """The kernel says uid 0 of a socket that no process has any more."""
    from vgpumgr.app.console_proxy import peer_uid

    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = socket.create_connection(listener.getsockname())
        with listener.accept()[0] as met:
            made.close()
            deadline = time.monotonic() + 10
            while (found := peer_uid(met)) is not None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert found is None
            assert peer_uid(met) is None


def test_an_ipv6_program_that_speaks_ipv4_is_found() -> None:
    from vgpumgr.app.console_proxy import peer_uid

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_INET6) as six:
        six.connect((f"::ffff:{listener.getsockname()[0]}", listener.getsockname()[1]))
        with listener.accept()[0] as met:
            assert peer_uid(met) == 0


def test_behind_sudo_is_who_typed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from vgpumgr.app.actor import uids_at_work

    monkeypatch.setenv("SUDO_UID", "1000")
    assert uids_at_work() == (0, 1000)
    monkeypatch.setattr("os.geteuid", lambda: 1001)
    assert uids_at_work() == (1001, 1000), "sudo to a user of the service's, or to a shell of his"
    for nonsense in ("1001", "", "somebody", "-1"):
        monkeypatch.setenv("SUDO_UID", nonsense)
        assert uids_at_work() == (1001,)
