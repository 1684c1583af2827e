"""A renewed certificate is taken when it is whole, and never one that is not."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from unittest import mock

import pytest

from tests.certificates import Authority
from vgpumgr.api.server import TlsFiles


class Pair:
    """A certificate with its key in a folder, as a server took it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = Authority(folder / "ca")
        self._times = 1
        self.certificate, self.key = folder / "server-cert.pem", folder / "server-key.pem"
        self.renew()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, self.key)
        self.files = TlsFiles(self.certificate, self.key, self.context)

    def renew(self) -> None:
        self._authority.issue("IP:127.0.0.1", self.folder)
        self.touch()

    def touch(self) -> None:
        self._times += 1
        os.utime(self.certificate, (self._times, self._times))

    def shown(self) -> bytes:
        """What a client is shown, by a handshake in memory."""
        ends = [ssl.MemoryBIO() for _ in range(2)]
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        us = self.context.wrap_bio(ends[0], ends[1], server_side=True)
        them = client.wrap_bio(ends[1], ends[0])
        for _ in range(4):
            for each in (them, us):
                try:
                    each.do_handshake()
                except ssl.SSLWantReadError:
                    pass
        return them.getpeercert(binary_form=True) or b""


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_a_renewed_pair_is_taken(pair: Pair) -> None:
    before = pair.shown()
    assert not pair.files.look()
    pair.renew()
    assert pair.files.look()
    assert pair.shown() not in {before, b""}


@pytest.mark.parametrize("spoilt", ["half", "of another key", "empty", "gone"])
def test_a_pair_that_does_not_go_together_is_not_taken(pair: Pair, spoilt: str) -> None:
    before, key = pair.shown(), pair.key.read_bytes()
    pair.renew()
    match spoilt:
        case "half":
            pair.certificate.write_bytes(pair.certificate.read_bytes()[:200])
        case "of another key":
            pair.key.write_bytes(key)
        case "empty":
            pair.key.write_bytes(b"")
        case _:
            pair.certificate.unlink()
    assert not pair.files.look()
    assert pair.shown() == before
    pair.renew()
    assert pair.files.look()
    assert pair.shown() != before


def test_an_expired_certificate_is_not_taken(pair: Pair) -> None:
    from datetime import UTC, datetime, timedelta

    before = pair.shown()
    pair.renew()
    with mock.patch("vgpumgr.api.server.datetime") as clock:
        clock.now.return_value = datetime.now(UTC) + timedelta(days=3)
        assert not pair.files.look()
    assert pair.shown() == before
