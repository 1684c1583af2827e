"""``file_digest``: what a file is, and whose it must be."""

from __future__ import annotations

import hashlib

import pytest

from tests.unit.helper.host import FakeHost
from vgpumgr.helper.dispatch import handle

CONTENT = b"0123456789abc"


@pytest.fixture
def host() -> FakeHost:
    made = FakeHost()
    made.add_pool("/pool")
    made.images = {"/pool/a.img": CONTENT, "/pool/empty": b"", "/etc/shadow": b"secret"}
    return made


def asked(host: FakeHost, path: str, pool: str = "/pool") -> dict[str, object]:
    args = {"path": path, "pool_path": pool}
    answer = handle({"verb": "file_digest", "args": args}, host)
    found = answer["result"] if answer["ok"] else answer["error"]
    assert isinstance(found, dict)
    return found


def test_the_whole_file_counts(host: FakeHost) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert asked(host, "/pool/a.img") == {"sha256": digest, "bytes": len(CONTENT)}
    assert asked(host, "/pool/empty")["bytes"] == 0


def test_it_changes_nothing_and_needs_no_root(host: FakeHost) -> None:
    host.is_root = False
    assert "sha256" in asked(host, "/pool/a.img")
    assert host.log == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/etc/shadow", "refused"),
        ("/pool/../etc/shadow", "bad-argument"),
        ("pool/a.img", "bad-argument"),
        ("/pool/absent", "not-found"),
    ],
)
def test_nothing_outside_the_pool_is_read(host: FakeHost, path: str, code: str) -> None:
    assert asked(host, path)["code"] == code
