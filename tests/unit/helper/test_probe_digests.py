"""What a probe leaves out for a caller who knows it, and the fingerprint of libvirt's files."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.helper.host import FakeHost, done, gpu_host, refused
from vgpumgr.helper.facts import libvirt_state
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import probe
from vgpumgr.hosts.facts.host_facts import PARTS

STATUS, DEFINITION = "/run/libvirt/qemu/a.xml", "/etc/libvirt/qemu/a.xml"


@pytest.fixture
def host() -> FakeHost:
    host = gpu_host()
    host.files |= {
        "/run/libvirtd.pid": "812\n",
        "/proc/812/stat": f"812 (a) b) S {'0 ' * 18}4711 0\n",
        STATUS: "",
        DEFINITION: "",
    }
    return host


def test_the_parts_are_those_that_a_controller_reads(host: FakeHost) -> None:
    assert set(done(host, "probe")["digests"]) == {*PARTS, "libvirt"}
    assert {"machine", *probe.PARTS} == set(PARTS)


def test_each_name_belongs_to_one_part_whose_digest_holds_it(host: FakeHost) -> None:
    whole = probe.look(host)
    before = probe.part_digests(whole)
    for name in whole:
        after = probe.part_digests({**whole, name: "another"})
        assert [part for part in before if before[part] != after[part]] == [
            next((part for part, names in probe.PARTS.items() if name in names), "machine")
        ]


def test_a_part_that_is_known_is_left_out_and_named(host: FakeHost) -> None:
    whole = done(host, "probe")
    assert whole["same"] == []
    known = {"gpus": whole["digests"]["gpus"], "numa": "0" * 32, "sundry": "0" * 32}
    told = done(host, "probe", known=known)
    assert told["same"] == ["gpus"]
    left_out = whole.keys() - told.keys()
    assert left_out == {"devices", "parents", "nvml", "fabric"}
    assert told["digests"] == whole["digests"]
    assert {name: told[name] for name in told if name != "same"} == {
        name: whole[name] for name in whole if name not in {*left_out, "same"}
    }


def test_a_change_is_told_though_its_digest_is_presented(host: FakeHost) -> None:
    known = done(host, "probe")["digests"]
    del known["libvirt"]
    host.files["/etc/mdevctl.d/mtty/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"] = "{}"
    told = done(host, "probe", known=known)
    assert told["mdevctl"] == ["83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"]
    assert set(told["same"]) == known.keys() - {"mdevs"}


@pytest.mark.parametrize(
    "known", [7, ["x"], {"gpus": 7}, {"gpus": "short"}, {f"p{n}": "0" * 32 for n in range(65)}]
)
def test_what_is_no_digest_is_refused(host: FakeHost, known: object) -> None:
    assert refused(host, "probe", known=known)["code"] == "bad-argument"


CHANGES: dict[str, Callable[[FakeHost], object]] = {
    "rewritten": lambda host: host.stamps.update({STATUS: (2, 1, 1, 1)}),
    "within the same second": lambda host: host.stamps.update({DEFINITION: (1, 2, 1, 1)}),
    "with the time put back": lambda host: host.stamps.update({DEFINITION: (1, 1, 2, 1)}),
    "grown": lambda host: host.stamps.update({STATUS: (1, 1, 1, 2)}),
    "stopped": lambda host: host.files.pop(STATUS),
    "marked": lambda host: host.files.update({"/etc/libvirt/qemu/autostart/a.xml": ""}),
    "network": lambda host: host.files.update({"/etc/libvirt/qemu/networks/n.xml": ""}),
    "pool": lambda host: host.files.update({"/etc/libvirt/storage/p.xml": ""}),
    "pool started": lambda host: host.files.update({"/run/libvirt/storage/p.xml": ""}),
    "restarted": lambda host: host.files.update({"/proc/812/stat": f"8 (l) S {'0 ' * 18}4712\n"}),
    "another": lambda host: host.files.update(
        {"/run/virtqemud.pid": "9", "/proc/9/stat": f"9 (v) S {'0 ' * 18}1\n"}
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_write_of_libvirt_changes_the_fingerprint(
    host: FakeHost, change: Callable[[FakeHost], object]
) -> None:
    before = libvirt_state.fingerprint(host)
    assert before == libvirt_state.fingerprint(host)
    change(host)
    assert libvirt_state.fingerprint(host) not in {before, None}


def test_what_is_no_state_of_libvirt_leaves_it(host: FakeHost) -> None:
    before = libvirt_state.fingerprint(host)
    host.files |= {"/run/libvirt/qemu/a.pid": "", "/run/libvirt/network/default.pid": ""}
    host.files |= {"/run/virtqemud.pid": "77"}  # left behind by one that has ended
    assert libvirt_state.fingerprint(host) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda host: host.files.pop("/run/libvirtd.pid"),
        lambda host: host.files.pop("/proc/812/stat"),
        lambda host: host.files.update({"/proc/812/stat": f"812 (l) Z {'0 ' * 18}4711 0\n"}),
        lambda host: host.files.update({"/proc/812/stat": f"812 (l) T {'0 ' * 18}4711 0\n"}),
        lambda host: host.files.update({"/run/libvirtd.pid": "-"}),
        lambda host: host.files.update({"/proc/812/stat": "812\n"}),
        lambda host: host.unreadable.update({"/run/libvirt/qemu": errno.EACCES}),
    ],
    ids=["no-daemon", "ended", "zombie", "stopped", "no-number", "no-time", "not-permitted"],
)
def test_without_a_daemon_or_leave_to_look_there_is_none(
    host: FakeHost, change: Callable[[FakeHost], object]
) -> None:
    change(host)
    assert libvirt_state.fingerprint(host) is None
    told = done(host, "probe")
    assert "libvirt" not in told["digests"] and told["unknown"] == probe.look(host)["unknown"]


def test_a_real_file_that_is_replaced_has_another_stamp(tmp_path: Path) -> None:
    system, there = System(str(tmp_path)), tmp_path / "a.xml"
    assert system.stamp("/a.xml") is None
    there.write_text("x")
    before = system.stamp("/a.xml")
    (tmp_path / "a.xml.new").write_text("x")
    (tmp_path / "a.xml.new").replace(there)
    assert before is not None and system.stamp("/a.xml") != before


def test_an_answer_with_nothing_new_is_small(host: FakeHost) -> None:
    known: dict[str, Any] = done(host, "probe")["digests"]
    del known["libvirt"]
    assert len(json.dumps(done(host, "probe", known=known))) < 600


POOL = "/srv/pool"


@pytest.fixture
def pool(host: FakeHost) -> FakeHost:
    target = f"<target><path>{POOL}/</path></target>"
    host.files |= {
        "/etc/libvirt/storage/p.xml": f"<pool type='dir'>{target}</pool>",
        f"{POOL}/a.qcow2": "",
        "/data/pool/a.qcow2": "",
        "/proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "30 22 8:2 / /srv rw shared:1 - xfs /dev/sdb rw\n",
    }
    return host


def test_a_volume_that_comes_or_goes_changes_the_fingerprint(pool: FakeHost) -> None:
    before = libvirt_state.fingerprint(pool)
    pool.stamps[POOL] = (1, 2, 2, 1)
    assert libvirt_state.fingerprint(pool) != before
    pool.links["/srv"] = "data"
    linked = libvirt_state.fingerprint(pool)
    pool.stamps["/data/pool"] = (1, 2, 2, 1)
    assert libvirt_state.fingerprint(pool) not in {linked, None}


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.glusterfs", "autofs"])
@pytest.mark.parametrize("point", ["/srv", POOL])
def test_a_folder_on_a_server_is_not_looked_at(pool: FakeHost, kind: str, point: str) -> None:
    mounts = pool.read("/proc/self/mountinfo")
    pool.files["/proc/self/mountinfo"] = f"{mounts}31 22 0:9 / {point} rw - {kind} server:/ rw\n"
    looked: list[str] = []
    pool.stamp = lambda path: looked.append(path) or (1, 1, 1, 1)  # type: ignore[method-assign,func-returns-value]
    assert libvirt_state.fingerprint(pool) is not None
    assert POOL not in looked and STATUS in looked


def test_links_that_lead_in_a_circle_are_no_folder(pool: FakeHost) -> None:
    pool.links[POOL] = POOL
    assert libvirt_state.fingerprint(pool) is not None
