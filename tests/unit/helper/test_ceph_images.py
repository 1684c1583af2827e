"""The verbs for images of Ceph's: what ``rbd`` is asked, and what is refused before."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.unit.helper.host import FakeHost, done, refused

KEY = "/etc/libvirt/secrets/5b4ee2a6-5a1c-4e0c-8f1e-3c8f6b2c9d11.base64"
LOGIN = """<auth type='ceph' username='vm'>
  <secret uuid='5b4ee2a6-5a1c-4e0c-8f1e-3c8f6b2c9d11'/></auth>"""
POOL = """<pool type='rbd'><name>ceph</name><source><host name='m1' port='6789'/>
  <host name='fe80::1'/><name>vms</name>{login}</source></pool>"""
PREFIX = "rbd --conf /dev/null -m m1:6789,[fe80::1]"


class Cluster:
    """Parents by image; the snapshots that cannot go."""

    def __init__(self, host: FakeHost, login: str = LOGIN) -> None:
        self.host = host
        self.parents: dict[str, str | None] = {"vms/a": "libvirt-5", "vms/base": None}
        host.programs["rbd"] = self.rbd
        host.files["/etc/libvirt/storage/ceph.xml"] = POOL.format(login=login)

    def rbd(self, argv: Sequence[str]) -> tuple[int, str]:
        image = argv[-1]
        if "info" in argv:
            if image not in self.parents:
                return 2, "rbd: error opening image x: (2) No such file or directory\n"
            snapshot = self.parents[image]
            parent = {"pool": "vms", "image": "base", "snapshot": snapshot}
            return 0, json.dumps({"name": image, **({"parent": parent} if snapshot else {})})
        if "flatten" in argv:
            self.parents[image] = None
        return 0, ""

    @property
    def changed(self) -> list[str]:
        runs = [words for what, words in self.host.log if what == "run"]
        return [words.removeprefix(PREFIX).strip() for words in runs if " info " not in words]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(FakeHost())


def test_an_image_is_flattened_once_and_libvirts_snapshot_goes(cluster: Cluster) -> None:
    for _ in range(2):
        assert done(cluster.host, "rbd_flatten", pool="ceph", name="a") == {"parent": None}
    login = f"--id vm --keyfile {KEY}"
    assert cluster.changed == [
        f"{login} flatten --no-progress vms/a",
        f"{login} snap unprotect vms/base@libvirt-5",
        f"{login} snap rm vms/base@libvirt-5",
    ]


def test_a_snapshot_of_another_maker_stays(cluster: Cluster) -> None:
    cluster.parents["vms/a"] = "mine"
    assert done(cluster.host, "rbd_look", pool="ceph", name="a") == {"parent": "vms/base@mine"}
    done(cluster.host, "rbd_flatten", pool="ceph", name="a")
    assert not any(" snap " in words for words in cluster.changed)


def test_a_cluster_without_logins_is_asked_without_one() -> None:
    cluster = Cluster(FakeHost(), login="")
    done(cluster.host, "rbd_flatten", pool="ceph", name="a")
    assert cluster.changed[0] == "flatten --no-progress vms/a"


def test_a_secret_without_a_uuid_is_refused() -> None:
    usage = "<auth type='ceph' username='vm'><secret usage='ceph vm'/></auth>"
    cluster = Cluster(FakeHost(), login=usage)
    error = refused(cluster.host, "rbd_flatten", pool="ceph", name="a")
    assert error["message"] == "the key of storage pool ceph is not known"
    assert cluster.changed == []


@pytest.mark.parametrize(
    ("pool", "name", "code"),
    [
        ("other", "a", "refused"),
        ("ceph", "gone", "not-found"),
        ("ceph", "a@b", "bad-argument"),
        ("ceph", "--pool", "bad-argument"),
    ],
)
def test_what_is_refused_changes_nothing(cluster: Cluster, pool: str, name: str, code: str) -> None:
    assert refused(cluster.host, "rbd_flatten", pool=pool, name=name)["code"] == code
    assert cluster.changed == []


@pytest.mark.parametrize("said", ["", "[]", '{"parent": 5}', '{"parent": {"pool": "p"}}'])
def test_what_cannot_be_understood_is_unknown(cluster: Cluster, said: str) -> None:
    cluster.host.programs["rbd"] = (0, said)
    assert refused(cluster.host, "rbd_look", pool="ceph", name="a")["code"] == "unknown"
