"""The verb that has an overlay read as before without the file that it is laid over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.helper.host import FakeHost, done, refused
from tests.unit.helper.test_image import RAW_BACKING, qcow2

QCOW2_BACKING = ((0xE2792ACA, b"qcow2"),)
TOP, BETWEEN, BASE = "/pool/top", "/pool/between", "/pool/base"


def over(path: str, kind: tuple[tuple[int, bytes], ...] = QCOW2_BACKING) -> bytes:
    return qcow2(backing=path.encode(), extensions=kind)


@pytest.fixture
def chain() -> FakeHost:
    """A file over one over a raw one; qemu-img does what it is told."""
    host = FakeHost()
    host.add_pool("/pool")
    host.images |= {TOP: over(BETWEEN), BETWEEN: over(BASE, RAW_BACKING), BASE: b"\0" * 512}

    def rebase(argv: Sequence[str]) -> tuple[int, str]:
        below = argv[argv.index("-b") + 1]
        host.images[argv[-1]] = over(below, RAW_BACKING) if below else qcow2()
        return 0, ""

    host.programs["qemu-img"] = rebase
    return host


def dissolve(host: FakeHost, path: str, below: str) -> dict[str, object]:
    return done(host, "overlay_dissolve", path=path, pool_path="/pool", below=below)


def ran(host: FakeHost) -> list[str]:
    return [words for what, words in host.log if what == "run"]


def test_the_file_between_is_left_out(chain: FakeHost) -> None:
    assert dissolve(chain, TOP, BASE) == {"backing": BASE}
    assert ran(chain) == [f"qemu-img rebase -q -f qcow2 -b {BASE} -F raw {TOP}"]
    assert dissolve(chain, TOP, BASE) == {"backing": BASE}
    assert len(ran(chain)) == 1


def test_the_lowest_is_left_out(chain: FakeHost) -> None:
    assert dissolve(chain, BETWEEN, "") == {"backing": None}
    assert ran(chain) == [f"qemu-img rebase -q -f qcow2 -b  {BETWEEN}"]


@pytest.mark.parametrize(
    ("path", "below", "why"),
    [
        (TOP, "", f"{BETWEEN} is laid over {BASE}, not nothing"),
        (TOP, "/pool/other", f"{BETWEEN} is laid over {BASE}, not /pool/other"),
        (BASE, TOP, "laid over nothing"),
    ],
)
def test_only_the_next_file_is_left_out(chain: FakeHost, path: str, below: str, why: str) -> None:
    error = refused(chain, "overlay_dissolve", path=path, pool_path="/pool", below=below)
    assert why in f"{error['message']} {error['why']}"
    assert ran(chain) == []


def test_a_chain_that_leaves_the_pool_is_refused(chain: FakeHost) -> None:
    chain.images |= {TOP: over("/etc/shadow"), "/etc/shadow": over(BASE)}
    refused(chain, "overlay_dissolve", path=TOP, pool_path="/pool", below=BASE)
    assert ran(chain) == []


def test_a_file_that_a_guest_writes_to_is_in_use(chain: FakeHost) -> None:
    chain.programs["qemu-img"] = (1, 'qemu-img: Failed to get "write" lock')
    error = refused(chain, "overlay_dissolve", path=TOP, pool_path="/pool", below=BASE)
    assert error["code"] == "in-use"


def test_what_was_not_done_is_no_success(chain: FakeHost) -> None:
    chain.programs["qemu-img"] = (0, "")
    error = refused(chain, "overlay_dissolve", path=TOP, pool_path="/pool", below=BASE)
    assert error["why"] == f"it is laid over {BETWEEN} still"


def test_without_the_program_it_is_refused(chain: FakeHost) -> None:
    del chain.programs["qemu-img"]
    error = refused(chain, "overlay_dissolve", path=TOP, pool_path="/pool", below=BASE)
    assert "qemu-img could not be run" in error["message"]
