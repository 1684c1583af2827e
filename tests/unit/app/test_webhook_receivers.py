"""Where webhooks may send to, and that a receiver cannot hold an attempt up."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.webhook_receiver import receiving
from vgpumgr.app.config import load_config
from vgpumgr.app.webhooks.receiver import NotTaken, post
from vgpumgr.app.webhooks.receiver_address import ReceiverRefused, ReceiverRules
from vgpumgr.model.errors import UsageError

ANYWHERE = ReceiverRules()
HERE = ReceiverRules((ip_network("127.0.0.0/8"),))
HEADERS = {"webhook-id": "1"}


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org/", "ftp://example.org/", "//example.org/", "example.org", ""),
        *("https://", "https:///x", "https://user:password@example.org/", "https://a b/"),
        *("https://example.org/#x", "https://example.org:0/", "https://example.org:70000/"),
        *("https://exa\nmple.org/", "https://example.org/\\@evil", "https://ex\u00e4mple.org/"),
        *("https://127.0.0.1/", "http://127.0.0.1/", "http://localhost/", "https://[::1]/"),
        *("https://169.254.169.254/latest", "https://[fe80::1]/", "https://[fe80::1%25eth0]/"),
        *("https://[::ffff:127.0.0.1]/", "https://[::ffff:a9fe:a9fe]/", "https://0.0.0.0/"),
        *("https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://[fd00:ec2::254]/"),
        *("https://224.0.0.1/", "https://255.255.255.255/", "https://100.100.100.200/"),
        *("https://[::]/", "https://example.org/" + "x" * 1000),
    ],
)
def test_a_url_that_is_refused(url: str) -> None:
    with pytest.raises(ReceiverRefused):
        ANYWHERE.place(url)


def test_a_refusal_does_not_repeat_what_may_be_a_proof() -> None:
    with pytest.raises(ReceiverRefused) as caught:
        ANYWHERE.place("https://user:hidden@example.org/")
    assert "hidden" not in str(caught.value.as_dict())


def test_the_parts_of_a_url_that_is_taken() -> None:
    found = ANYWHERE.place("https://Example.org/a/b?c=d")
    assert (found.secure, found.host, found.port, found.target) == (
        *(True, "example.org", 443),
        "/a/b?c=d",
    )
    assert ANYWHERE.place("https://10.1.2.3:8443").target == "/"
    assert ANYWHERE.place("https://[2001:db8:1::1]:8443/").port == 8443
    assert HERE.place("http://localhost:99/x").port == 99


def test_where_networks_are_set_receivers_are_in_them() -> None:
    rules = ReceiverRules((ip_network("10.0.0.0/8"), ip_network("2001:db8::/32")))
    rules.place("https://10.1.2.3/")
    rules.place("https://[2001:db8::1]/")
    rules.place("https://[::ffff:10.1.2.3]/")
    for each in ("https://192.0.2.1/", "https://127.0.0.1/", "https://[::ffff:127.0.0.1]/"):
        with pytest.raises(ReceiverRefused):
            rules.place(each)


Lookup = Callable[..., list[tuple[object, ...]]]


def leading_to(*answers: str) -> tuple[Lookup, list[str]]:
    """Names lead to one of these after the other."""
    asked: list[str] = []

    def look_up(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        address = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port))]

    return look_up, asked


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "fe80::1"])
def test_a_name_that_leads_to_where_nothing_may_be_sent(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", leading_to(address)[0])
    with pytest.raises(NotTaken, match="not permitted"):
        post(ANYWHERE, "https://receiver.example.org/", b"{}", HEADERS)


def test_a_name_is_looked_up_once_and_that_address_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that leads elsewhere the second time gains nothing."""
    connected: list[object] = []

    def connect(address: object, *_: object) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    look_up, asked = leading_to("192.0.2.7", "127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(NotTaken, match="Connection refused"):
        post(ANYWHERE, "https://receiver.example.org/", b"{}", HEADERS)
    assert (asked, connected) == (["receiver.example.org"], [("192.0.2.7", 443)])


@contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A listener that talks to whatever connects as it likes."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            connected, _ = server.accept()
            with connected:
                talk(connected)
        except OSError:
            pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
    finally:
        server.close()
        thread.join(5)


def asked(sock: socket.socket) -> None:
    """All of a request: one that is answered, or left, in its midst is met as a reset."""
    text = b""
    while not text.endswith(b"\r\n\r\n{}"):
        if not (more := sock.recv(65536)):
            return
        text += more


def slowly(sock: socket.socket) -> None:
    while True:
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.02)


def endless_head(sock: socket.socket) -> None:
    asked(sock)
    sock.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        sock.sendall(b"x: " + b"y" * 1000 + b"\r\n")


def no_http(sock: socket.socket) -> None:
    asked(sock)
    sock.sendall(b"SSH-2.0-OpenSSH\r\n")


def large_body(sock: socket.socket) -> None:
    asked(sock)
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    while True:
        sock.sendall(b"x" * 65536)


@pytest.mark.parametrize(
    ("talk", "why"),
    [
        (slowly, "no answer within 0.3 s"),
        (lambda _: time.sleep(1), "no answer within 0.3 s"),
        (endless_head, "it answers no HTTP"),
        (no_http, "it answers no HTTP"),
        (lambda sock: sock.recv(10), "closed|reset|no HTTP"),
    ],
    ids=["slowly", "nothing", "endless head", "no HTTP", "hangs up"],
)
def test_an_attempt_ends_in_time(talk: Callable[[socket.socket], None], why: str) -> None:
    began = time.monotonic()
    with listening(talk) as url, pytest.raises(NotTaken, match=why):
        post(HERE, url, b"{}", HEADERS, 0.3)
    assert time.monotonic() - began < 5


def test_of_the_answer_the_status_is_read_alone() -> None:
    with listening(large_body) as url:
        assert post(HERE, url, b"{}", HEADERS, 2.0) == 200


def test_https_needs_a_certificate_of_that_name_by_a_known_ca(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "ca")
    authority.issue("DNS:localhost", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server-cert.pem", tmp_path / "server-key.pem")

    def talk(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as secure:
            asked(secure)
            secure.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    rules = ReceiverRules((ip_network("127.0.0.0/8"),))
    with listening(talk) as url, pytest.raises(NotTaken, match="certificate is not accepted"):
        post(rules, url.replace("http://127.0.0.1", "https://localhost"), b"{}", HEADERS, 5.0)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca-cert.pem"))
    with listening(talk) as url:
        secure_url = url.replace("http://127.0.0.1", "https://localhost")
        assert post(rules, secure_url, b"{}", HEADERS, 5.0) == 204
    with listening(talk) as url, pytest.raises(NotTaken, match="certificate is not accepted"):
        post(rules, url.replace("http:", "https:"), b"{}", HEADERS, 5.0)


def test_what_is_in_the_url_goes_to_the_receiver() -> None:
    with receiving() as receiver:
        assert post(HERE, receiver.url + "?key=value", b'{"a": 1}', HEADERS, 5.0) == 200
    [got] = receiver.received
    assert (got.path, got.body) == ("/hook?key=value", b'{"a": 1}')
    assert got.headers["host"] == receiver.url.split("/")[2]


def test_networks_in_the_settings(tmp_path: Path) -> None:
    told = {"webhook_networks": "10.0.0.0/8, 127.0.0.1/32 ::1/128"}
    found = load_config({"HOME": str(tmp_path)}, tmp_path, told).webhook_networks
    assert list(map(str, found)) == ["10.0.0.0/8", "127.0.0.1/32", "::1/128"]
    for bad in ("10.0.0.1/8", "everywhere", "10.0.0.0/99"):
        with pytest.raises(UsageError, match="webhook_networks"):
            load_config({"HOME": str(tmp_path)}, tmp_path, {"webhook_networks": bad})
