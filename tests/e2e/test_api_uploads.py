"""`image import` at a server: the file is sent, cut, resumed, refused; as beside the ledger."""

from __future__ import annotations

import hashlib
import random
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.apiserver import Answer, ApiServer, UnixHttp, serving_api
from tests.e2e.support import finish, host, new_cli, until
from tests.unit.images.files import qcow2
from vgpumgr.client import file_upload
from vgpumgr.client.api_client import ApiClient, ServerAddress
from vgpumgr.engine.steps.image_file import ImageFile, opened

MIB = 1 << 20


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 1)), host("h2", ("T4", 1)))
        with serving_api(cli) as server:
            yield server


def file_of(api: ApiServer, name: str, data: bytes) -> str:
    return api.cli.file(data, name)


def begun(api: ApiServer, data: bytes, name: str, sha256: str = "") -> str:
    asked = {
        "file": name,
        "bytes": len(data),
        "sha256": sha256 or hashlib.sha256(data).hexdigest(),
    }
    answer = api.ask("POST", "/v1/uploads", asked)
    assert answer.status == 200, answer
    return str(answer.body["name"])


def append(api: ApiServer, id_: str, offset: int, data: bytes, **headers: str) -> Answer:
    told = {"Content-Type": "application/octet-stream", "Upload-Offset": str(offset), **headers}
    return api.ask("PATCH", f"/v1/uploads/{id_}", data, told)


def left(api: ApiServer) -> list[str]:
    return [each.name for each in (api.cli.state / "uploads").glob("*.part")]


def raw(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.mark.mainline
def test_an_import_at_a_server_is_the_import(api: ApiServer) -> None:
    file = file_of(api, "cad.qcow2", qcow2())
    bring = ("image", "import", file, "--name")
    there = api(*bring, "there", "--host", "h2")
    here = api.cli(*bring, "here", "--host", "h2")
    assert (there.code, here.code) == (0, 0), there.err
    assert _same(there.out, "there") == _same(here.out, "here")
    assert (there.err, here.err) == ("", "here@1 has the same content as there@1\n")
    again, alone = api(*bring, "there"), api.cli(*bring, "here")
    assert "is there@1 already: the same content; copied to h1 now" in again.err
    assert (again.code, again.err) == (alone.code, alone.err.replace("here", "there"))
    for args in (
        ("--name", "cad", "--format", "raw"), ("--name", "cad", "--host", "h9"),
        ("--name", "cad", "--pool", "slow"), ("--name", "Cad"),
    ):  # fmt: skip
        both = [run("image", "import", file, *args) for run in (api, api.cli)]
        assert (both[0].code, both[0].err) == (both[1].code, both[1].err)
        assert both[0].code
    sent = _uploads_begun(api)
    third, alone = api(*bring, "there"), api.cli(*bring, "here")
    assert "nothing was copied" in third.err
    assert (third.code, third.err) == (alone.code, alone.err.replace("here", "there"))
    assert _uploads_begun(api) == sent > 0, "what every host has is not sent"


def _uploads_begun(api: ApiServer) -> int:
    return len([x for x in api.cli.items("audit", "list") if x["event"] == "image.upload-begun"])


def _same(text: str, name: str) -> str:
    return re.sub(r"-[0-9a-f]{8}\.|\d+s", "…", re.sub(rf"\b{name}@", "NAME@", text))


@pytest.mark.mainline
def test_pieces_are_appended_where_it_ends_and_nowhere_else(api: ApiServer) -> None:
    data = raw(6 * MIB)
    id_ = begun(api, data, "pieces.raw")
    assert append(api, id_, 0, data[: 5 * MIB]).body["offset"] == 5 * MIB, "no limit of a body"
    twice = append(api, id_, 0, data[:10])
    assert (twice.status, twice.body["code"], twice.body["offset"]) == (
        409,
        "conflict.offset",
        5 * MIB,
    )
    for headers in ({"Upload-Offset": "-1"}, {"Upload-Offset": "x"}, {"Content-Type": "text/x"}):
        assert append(api, id_, 5 * MIB, b"x", **headers).status == 400
    assert append(api, id_, 5 * MIB, data[: 2 * MIB]).status == 413
    told = api.ask("HEAD", f"/v1/uploads/{id_}").headers
    assert (told["upload-offset"], told["upload-length"]) == (str(5 * MIB), str(6 * MIB))
    early = api.ask("POST", "/v1/images:import", {"name": "x", "upload": id_, "format": "raw"})
    assert (early.status, "not whole" in early.body["message"]) == (409, True)
    assert api.ask("DELETE", f"/v1/uploads/{id_}").status == 200
    assert append(api, id_, 5 * MIB, b"x").status == 404
    path, long = (
        api.ask("POST", "/v1/uploads", {"file": file, "bytes": size, "sha256": "0" * 64})
        for file, size in (("a/b", 1), ("b", 1 << 50))
    )
    assert path.status == 422
    assert (long.status, long.body["code"]) == (413, "usage.too-long")


@pytest.mark.mainline
def test_other_bytes_than_announced_become_no_image(api: ApiServer) -> None:
    data = raw(MIB)
    id_ = begun(api, data, "wrong.raw", sha256="0" * 64)
    append(api, id_, 0, data)
    asked = {"name": "wrong", "upload": id_, "format": "raw"}
    refused = api.ask("POST", "/v1/images:import?wait=30s", asked)
    assert (refused.status, refused.body["code"]) == (400, "usage.image.digest")
    assert api.ask("GET", f"/v1/uploads/{id_}").status == 404
    assert "wrong@1" not in api("image", "list").out


def test_of_two_senders_one_is_refused_and_a_cut_piece_is_kept(api: ApiServer) -> None:
    data = raw(3 * MIB)
    id_ = begun(api, data, "two.raw")
    slow = _begin_to_send(api, id_, len(data))
    slow.sendall(data[: 2 * MIB])
    until(lambda: append(api, id_, 0, b"x").status == 409, "the first to hold it")
    assert append(api, id_, 0, b"x").body["code"] == "conflict.in-use"
    slow.close()
    until(lambda: _offset(api, id_) == 2 * MIB, "what came to be kept")
    rest = data[2 * MIB :]
    until(
        lambda: append(api, id_, 2 * MIB, rest).body.get("offset") == 3 * MIB,
        "the first to hold it no more, and the rest to be kept",
    )
    api.ask("DELETE", f"/v1/uploads/{id_}")


def _offset(api: ApiServer, id_: str) -> int:
    return int(api.ask("GET", f"/v1/uploads/{id_}").body["offset"])


def _begin_to_send(api: ApiServer, id_: str, length: int) -> socket.socket:
    connection = UnixHttp(api.path)
    connection.connect()
    connection.sock.sendall(
        f"PATCH /v1/uploads/{id_} HTTP/1.1\r\nHost: x\r\nUpload-Offset: 0\r\n"
        f"Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n".encode()
    )
    return connection.sock


def test_a_server_that_is_told_to_end_ends_at_once_and_keeps_what_came(api: ApiServer) -> None:
    data = raw(3 * MIB)
    id_ = begun(api, data, "ended.raw")
    sender = _begin_to_send(api, id_, len(data))
    sender.sendall(data[: 2 * MIB])
    until(lambda: append(api, id_, 0, b"x").status == 409, "the first to hold it")
    began = time.monotonic()
    ended = api.end()
    assert (ended.code, "Traceback" in ended.err) == (0, False), ended.err
    assert time.monotonic() - began < 20, "it does not wait for the rest"
    assert sender.recv(100).startswith(b"HTTP/1.1 503")
    sender.close()
    api.start()
    at = _offset(api, id_)
    assert at > MIB
    assert append(api, id_, at, data[at:]).body["offset"] == 3 * MIB
    api.ask("DELETE", f"/v1/uploads/{id_}")


@dataclass(frozen=True, slots=True)
class _Watched:
    """A file of which it is told where it is read."""

    file: ImageFile
    heard: Callable[[int], None]

    @property
    def size(self) -> int:
        return self.file.size

    def read(self, offset: int, length: int) -> bytes:
        self.heard(offset)
        return self.file.read(offset, length)


@pytest.mark.thorough
def test_a_server_that_is_killed_gets_nothing_twice_but_what_was_not_durable(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_upload, "PART_BYTES", 2 * MIB)
    data = raw(8 * MIB)
    path, read = file_of(api, "killed.raw", data), []

    def heard(offset: int) -> None:
        read.append(offset // MIB)
        if read.count(5) == 1 and read[-1] == 5:  # in the midst of the third part
            api.kill()
            api.start()

    server = ApiClient(ServerAddress(path=api.path))
    with opened(path) as file:
        sha256 = hashlib.sha256(data).hexdigest()
        sent = file_upload.FileUpload(server)
        id_ = sent.send(_Watched(file, heard), "killed.raw", sha256, lambda _: None)
    server.close()
    assert read == [0, 1, 2, 3, 4, 5, 4, 5, 6, 7]
    asked = {"name": "killed", "upload": id_, "format": "raw"}
    done = api.ask("POST", "/v1/images:import?wait=60s", asked)
    assert (done.status, done.body["sha256"]) == (200, sha256), done
    assert api.ask("GET", f"/v1/uploads/{id_}").status == 404, "it is an image now"


def test_who_interrupts_an_import_is_told_how_to_go_on(api: ApiServer) -> None:
    file = file_of(api, "large.raw", raw(40 * MIB) + bytes(216 * MIB))
    bring = ("image", "import", file, "--name", "large", "--format", "raw")
    client = api.cli.process("--server", f"unix:{api.path}", *bring)
    try:
        until(lambda: _staged(api, "large.raw") > 0, "some of it to be sent")
        api.process.send_signal(signal.SIGSTOP)
        client.send_signal(signal.SIGINT)
        ended = finish(client)
    finally:
        api.process.send_signal(signal.SIGCONT)
    assert ended.code == 130, ended.err
    assert re.search(r"next: the same command goes on: \d+ MiB of 256 MiB are kept", ended.err)
    until(lambda: _kept(api, "large.raw")["offset"] > 0, "what came to be kept")
    again = api(*bring)
    assert (again.code, "of 256 MiB were there before" in again.err) == (0, True), again.err


def _kept(api: ApiServer, name: str) -> dict[str, Any]:
    [found] = [x for x in api.ask("GET", "/v1/uploads").body["items"] if x["file"] == name]
    return found


def _staged(api: ApiServer, name: str) -> int:
    found = [x for x in api.ask("GET", "/v1/uploads").body["items"] if x["file"] == name]
    return sum((api.cli.state / "uploads" / f"{x['name']}.part").stat().st_size for x in found)


@pytest.mark.thorough
def test_a_slow_sender_holds_nobody_up(api: ApiServer) -> None:
    """More of them than there are threads, and a change is answered at once."""
    for each in api.ask("GET", "/v1/uploads").body["items"]:
        api.ask("DELETE", f"/v1/uploads/{each['name']}")
    ids = [begun(api, raw(10), f"slow-{number}.raw", f"{number:064x}") for number in range(16)]
    senders = [_begin_to_send(api, id_, 10) for id_ in ids]
    began = time.monotonic()
    refused = api.ask("POST", "/v1/uploads", {"file": "one", "bytes": 1, "sha256": "f" * 64})
    assert (refused.status, refused.body["code"]) == (409, "conflict.full")
    for sender in senders:
        sender.close()
    for id_ in ids:
        until(lambda id_=id_: api.ask("DELETE", f"/v1/uploads/{id_}").status != 409, "it to go")
    assert time.monotonic() - began < 20
