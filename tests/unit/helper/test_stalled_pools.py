"""Storage pools whose server does not answer, as a probe names them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.helper.host import FakeHost, done

NAS = "<pool type='netfs'><name>{name}</name><target><path>{path}</path></target></pool>"
MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
36 22 0:43 / /nas rw - nfs4 nas:/vms rw
37 22 0:44 / /far rw - nfs4 far:/vms rw
38 22 8:2 / /own rw - xfs /dev/sdb rw
"""


@pytest.fixture
def host() -> FakeHost:
    made = FakeHost()
    for name in ("nas", "far", "own", "unmounted"):
        made.files[f"/etc/libvirt/storage/{name}.xml"] = NAS.format(name=name, path=f"/{name}/")
    made.files["/proc/self/mountinfo"] = MOUNTS

    def stat(argv: Sequence[str]) -> tuple[int, str]:
        return (124, "") if argv[-1] == "/nas" else (0, "")

    made.programs["stat"] = stat
    return made


def test_a_server_that_does_not_answer_is_named_by_its_pool(host: FakeHost) -> None:
    found = done(host, "probe")
    assert found["storage_pools"] == ["far", "nas", "own", "unmounted"]
    assert found["stalled_pools"] == ["nas"]
    asked = [words for what, words in host.log if what == "run" and words.startswith("stat")]
    assert sorted(asked) == ["stat -f /far", "stat -f /nas"]


def test_one_that_answers_with_an_error_is_not_stalled(host: FakeHost) -> None:
    host.programs["stat"] = (1, "stat: cannot read file system information: Stale file handle\n")
    assert done(host, "probe")["stalled_pools"] == []


def test_without_root_none_is_named_and_nothing_is_unknown(host: FakeHost) -> None:
    host.is_root = False
    found = done(host, "probe")
    assert found["storage_pools"] == found["stalled_pools"] == []
    assert not any("pools" in each["part"] for each in found["unknown"])
