"""The ``console`` verb, and a helper that stays joined."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vgpumgr.domainxml import ownership
from vgpumgr.helper import joined_connection
from vgpumgr.helper.facts import domain_files
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import console

FLEET, VM, NAME = "fleet-1", "vm-1", "desk"
FOLDER = f"{console.SOCKETS}/domain-1-{NAME}"


class Root(System):
    def root(self) -> bool:
        return True


class Place:
    """A host's files, with a VNC server that says ``hello``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.system = Root(str(folder))
        self.at(FOLDER).mkdir(parents=True)
        self.at(domain_files.STATUS).mkdir(parents=True)
        self.socket = self.at(f"{FOLDER}/vnc.sock")
        self.listener = self.listen(self.socket)
        self.record()

    def at(self, path: str) -> Path:
        return self.folder / path.lstrip("/")

    def listen(self, path: Path) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        here = os.open(path.parent, os.O_PATH)  # the path may be too long for a socket's name
        made.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)
        made.listen()
        return made

    def record(self, path: str = f"{FOLDER}/vnc.sock", kind: str = "socket") -> None:
        self.write(
            f"<domstatus state='running'><domain type='kvm' id='1'><name>{NAME}</name><metadata>"
            f"<v:vm xmlns:v='{ownership.NAMESPACE}' fleet='{FLEET}' name='{NAME}' id='{VM}' "
            "generation='1'/></metadata><devices><graphics type='vnc'>"
            f"<listen type='{kind}' socket='{path}'/></graphics></devices></domain></domstatus>"
        )

    def write(self, text: str) -> None:
        self.at(f"{domain_files.STATUS}/{NAME}.xml").write_text(text)

    def ask(self, **changes: Any) -> tuple[dict[str, Any], socket.socket | None]:
        args = {"domain": NAME, "vm": VM}
        request = {"verb": "console", "args": args, "fleet": FLEET, **changes}
        return joined_connection.joined(request, self.system)

    def refused(self, **changes: Any) -> dict[str, Any]:
        answer, connection = self.ask(**changes)
        assert connection is None and not answer["ok"]
        error: dict[str, Any] = answer["error"]
        return error


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.listener.close()


def test_it_joins_the_socket_that_libvirt_made(place: Place) -> None:
    answer, connection = place.ask()
    assert answer == {"ok": True, "result": {}} and connection is not None
    far, _ = place.listener.accept()
    with far, connection:
        far.sendall(b"RFB")
        assert connection.recv(3) == b"RFB"


def test_a_domain_of_others_is_left_alone(place: Place) -> None:
    assert place.refused(fleet="fleet-2")["code"] == "claim-mismatch"
    assert place.refused(args={"domain": NAME, "vm": "vm-2"})["code"] == "claim-mismatch"
    place.write("<domstatus><domain><name>desk</name></domain></domstatus>")
    assert place.refused()["code"] == "claim-mismatch"


def test_a_domain_that_is_off_is_refused(place: Place) -> None:
    error = place.refused(args={"domain": "other", "vm": VM})
    assert (error["code"], error["message"]) == ("refused", "other does not run")


@pytest.mark.parametrize(
    "path", ["/run/docker.sock", "", f"{console.SOCKETS}/../x/vnc.sock", "relative"]
)
def test_only_sockets_that_libvirt_made(place: Place, path: str) -> None:
    place.record(path)
    assert place.refused()["code"] == "refused"


def test_a_port_is_no_socket(place: Place) -> None:
    place.record(kind="address")
    assert place.refused()["message"] == "desk has no VNC console"


def test_a_link_is_not_followed(place: Place) -> None:
    elsewhere = place.at("/elsewhere")
    elsewhere.mkdir()
    with contextlib.closing(place.listen(elsewhere / "vnc.sock")):
        place.socket.unlink()
        place.socket.symlink_to(elsewhere / "vnc.sock")
        assert place.refused()["errno"] == "ENOTSOCK"
        place.socket.unlink()
        place.at(FOLDER).rmdir()
        place.at(FOLDER).symlink_to(elsewhere)
        assert place.refused()["errno"] in {"ELOOP", "ENOTDIR"}


def test_a_plain_file_is_no_socket(place: Place) -> None:
    place.socket.unlink()
    place.socket.write_text("")
    assert place.refused()["errno"] == "ENOTSOCK"


def test_a_server_that_is_gone_is_told(place: Place) -> None:
    place.listener.close()
    assert place.refused()["errno"] == "ECONNREFUSED"


@pytest.mark.parametrize("text", ["", "<x", "<a/>", "<!DOCTYPE a []><a/>", "<a>" + "x" * (5 << 20)])
def test_a_record_that_makes_no_sense_is_unknown(place: Place, text: str) -> None:
    place.write(text)
    assert place.refused()["code"] == "unknown"


@pytest.mark.parametrize(
    "changes",
    [
        {"args": {"domain": "../desk", "vm": VM}},
        {"args": {"domain": "..", "vm": VM}},
        {"args": {"domain": NAME, "vm": "a b"}},
        {"args": {"domain": NAME}},
        {"args": {"domain": NAME, "vm": VM, "path": "/x"}},
        {"args": []},
        {"fleet": 1},
        {"more": 1},
    ],
)
def test_bad_arguments(place: Place, changes: dict[str, Any]) -> None:
    assert place.refused(**changes)["code"] == "bad-argument"


def test_it_needs_root(place: Place) -> None:
    place.system.root = lambda: False  # type: ignore[method-assign]
    assert place.refused()["code"] == "not-permitted"


PROGRAM = """
import socket, sys
from vgpumgr.helper import __main__ as program, joined_connection as joining
near = socket.socket(fileno=int(sys.argv.pop()))
joining.console.attach = lambda call: near
sys.exit(program.main())
"""


def test_the_program_answers_and_goes_on_as_the_connection() -> None:
    near, far = socket.socketpair()
    request = {"verb": "console", "args": {"domain": NAME, "vm": VM}, "fleet": FLEET}
    with far:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(near.fileno())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[near.fileno()],
        )  # fmt: skip
        near.close()
        assert process.stdin is not None and process.stdout is not None
        with process.stdin, process.stdout:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"ok": True, "result": {}}
            sent, got = bytes(range(256)) * 4096, bytearray()
            reader = threading.Thread(target=lambda: got.extend(process.stdout.read(len(sent))))
            reader.start()
            far.sendall(sent)
            reader.join()
            assert bytes(got) == sent
            process.stdin.write(b"keys")
            process.stdin.flush()
            assert far.recv(4) == b"keys"
            process.stdin.close()
            assert far.recv(1) == b"", "the caller has gone"
            assert process.wait(20) == 0


def test_a_request_of_many_lines_is_still_one_request() -> None:
    text = json.dumps({"verb": "version", "args": {}}, indent=1).encode() + b"\n"
    ran = subprocess.run(
        [sys.executable, "-m", "vgpumgr.helper"], input=text, capture_output=True, check=True
    )
    assert json.loads(ran.stdout)["ok"]
