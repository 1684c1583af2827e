"""The verbs for thin volumes: what LVM is asked, and what is refused before."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.unit.helper.host import FakeHost, done, refused

MIB = 1 << 20
POOL = "<pool type='logical'><name>fast</name><source><name>vg0</name></source></pool>"


class Group:
    """A volume group: attributes, pool and bytes by volume."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.volumes = {"thin": ("twi-aotz--", "", 1 << 40), "base": ("Vwi-a-tz--", "thin", MIB)}
        host.programs |= {"lvs": self.lvs, "lvcreate": self.lvcreate, "lvextend": self.lvextend}
        host.files["/etc/libvirt/storage/fast.xml"] = POOL

    def lvs(self, argv: Sequence[str]) -> tuple[int, str]:
        rows = [
            {"lv_name": name, "lv_attr": kind, "pool_lv": pool, "lv_size": str(size)}
            for name, (kind, pool, size) in self.volumes.items()
        ]
        text = json.dumps({"report": [{"lv": rows}]})
        return 0, f"  WARNING: it is a warm day.\n{text}"

    def lvcreate(self, argv: Sequence[str]) -> tuple[int, str]:
        name = argv[argv.index("--name") + 1]
        size = argv[argv.index("--virtualsize") + 1][:-1] if "--thin" in argv else MIB
        self.volumes[name] = ("Vwi-a-tz--", "thin", int(size))
        return 0, ""

    def lvextend(self, argv: Sequence[str]) -> tuple[int, str]:
        name = argv[-1].partition("/")[2]
        self.volumes[name] = ("Vwi-a-tz--", "thin", int(argv[3][:-1]))
        return 0, ""

    @property
    def changed(self) -> list[str]:
        runs = [words for what, words in self.host.log if what == "run"]
        return [words for words in runs if not words.startswith("lvs ")]


@pytest.fixture
def group() -> Group:
    return Group(FakeHost())


def test_a_volume_is_made_in_the_thin_pool(group: Group) -> None:
    found = done(group.host, "thin_volume_create", group="vg0", name="a", bytes=8 * MIB)
    assert found == {"bytes": 8 * MIB}
    assert group.changed == [
        f"lvcreate --yes --quiet --wipesignatures n --thin --virtualsize {8 * MIB}b --name a "
        "vg0/thin"
    ]


def test_a_snapshot_is_as_large_as_is_asked(group: Group) -> None:
    found = done(
        group.host, "thin_volume_create", group="vg0", name="a", bytes=8 * MIB, source="base"
    )
    assert found == {"bytes": 8 * MIB}
    assert group.changed == [
        "lvcreate --yes --quiet --snapshot --setactivationskip n --name a vg0/base",
        f"lvextend --quiet --size {8 * MIB}b vg0/a",
    ]


def test_a_volume_grows_and_never_gets_smaller(group: Group) -> None:
    for size, there in ((2 * MIB, 2 * MIB), (MIB, 2 * MIB)):
        found = done(group.host, "thin_volume_grow", group="vg0", name="base", bytes=size)
        assert found == {"bytes": there}
    assert len(group.changed) == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"group": "vg1"}, "vg1 is not a storage pool of libvirt's"),
        ({"name": "base"}, "vg0/base exists already"),
        ({"source": "thin"}, "vg0/thin is no thin volume"),
        ({"source": "other"}, "vg0/other is no thin volume"),
        ({"bytes": 0}, "argument 'bytes' is 0"),
        ({"name": "-a"}, "no name of a volume"),
        ({"name": "a/b"}, "no name of a volume"),
        ({"name": "a@b"}, "no name of a volume"),
    ],
)
def test_what_is_refused_changes_nothing(group: Group, args: dict[str, object], words: str) -> None:
    asked: dict[str, object] = {"group": "vg0", "name": "a", "bytes": MIB, **args}
    error = refused(group.host, "thin_volume_create", **asked)
    assert words in error["message"]
    assert group.changed == []


@pytest.mark.parametrize("pools", [{}, {"thin": 1, "more": 1}])
def test_a_group_needs_one_thin_pool(group: Group, pools: dict[str, int]) -> None:
    group.volumes = dict.fromkeys(pools, ("twi-aotz--", "", MIB))
    error = refused(group.host, "thin_volume_create", group="vg0", name="a", bytes=MIB)
    assert error["message"] == "volume group vg0 needs one thin pool"
    assert group.changed == []


def test_a_thick_volume_is_left_alone(group: Group) -> None:
    group.volumes["base"] = ("-wi-a-----", "", MIB)
    error = refused(group.host, "thin_volume_grow", group="vg0", name="base", bytes=2 * MIB)
    assert error["message"] == "vg0/base is no thin volume"


@pytest.mark.parametrize("said", ["", "{}", "[]", '{"report": [{"lv": [{"lv_name": "a"}]}]}'])
def test_what_cannot_be_understood_is_unknown(group: Group, said: str) -> None:
    group.host.programs["lvs"] = (0, said)
    error = refused(group.host, "thin_volume_create", group="vg0", name="a", bytes=MIB)
    assert error["code"] == "unknown"


def test_a_program_that_fails_says_why(group: Group) -> None:
    group.host.programs["lvcreate"] = (5, "  Insufficient free space\n")
    error = refused(group.host, "thin_volume_create", group="vg0", name="a", bytes=MIB)
    assert (error["code"], error["why"]) == ("refused", "Insufficient free space")
    del group.host.programs["lvs"]
    error = refused(group.host, "thin_volume_create", group="vg0", name="a", bytes=MIB)
    assert error["code"] == "not-found"
