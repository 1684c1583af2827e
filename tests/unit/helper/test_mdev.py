"""Mediated devices through the helper: claim first, the kernel's refusals, taking them back."""

from __future__ import annotations

import errno
import json

import pytest

from tests.unit.helper.host import (
    CLAIM,
    FLEET,
    MDEVS,
    UUID,
    FakeHost,
    call,
    done,
    mtty_host,
    power_cut,
    refused,
)

OTHER_UUID = "4b20d080-1b54-4048-85b3-a6a62d165c02"
CLAIM_FILE = f"/var/lib/vgpumgr/claims/mdev-{UUID}.json"
CREATE = {"parent": "mtty", "type": "mtty-2", "uuid": UUID, "claim": CLAIM}


@pytest.fixture
def host() -> FakeHost:
    return mtty_host()


def foreign(host: FakeHost, uuid: str = UUID, kind: str = "mtty-1") -> None:
    """An mdev made by another hand."""
    host.write(f"/sys/class/mdev_bus/mtty/mdev_supported_types/{kind}/create", uuid)


def test_create_answers_what_was_read_back(host: FakeHost) -> None:
    made = done(host, "mdev_create", **CREATE)
    assert made["state"] == "in-state"
    assert (made["exists"], made["parent"], made["type"]) == (True, "mtty", "mtty-2")
    assert made["iommu_group"] == 101
    assert made["claim"] == {
        "unit": f"mdev-{UUID}",
        "fleet": FLEET,
        "epoch": 1,
        **CLAIM,
        "wanted": {
            "kind": "mdev",
            "parent": "mtty",
            "type": "mtty-2",
            "uuid": UUID,
            "instance": None,
            "placement_id": None,
            "params": {},
        },
    }


def test_the_claim_is_durable_before_the_device_is_made(host: FakeHost) -> None:
    done(host, "mdev_create", **CREATE)
    changes = [path for _, path in host.log]
    assert changes == [
        "/var/lib/vgpumgr/epochs/fleet-1",
        CLAIM_FILE,
        "/sys/class/mdev_bus/mtty/mdev_supported_types/mtty-2/create",
    ]


def test_the_claim_is_removed_after_the_device_is_gone(host: FakeHost) -> None:
    done(host, "mdev_create", **CREATE)
    host.log.clear()
    assert done(host, "mdev_remove", uuid=UUID, claim=CLAIM) == {"exists": False}
    assert host.log == [("write", f"{MDEVS}/{UUID}/remove"), ("remove", CLAIM_FILE)]


def test_creating_again_under_the_same_claim_changes_nothing(host: FakeHost) -> None:
    first = done(host, "mdev_create", **CREATE)
    host.log.clear()
    assert done(host, "mdev_create", **CREATE) == first
    assert host.log == []


@pytest.mark.parametrize("before", ["store /var/lib/vgpumgr/claims", "/create"])
def test_after_a_power_cut_the_same_call_finishes(host: FakeHost, before: str) -> None:
    power_cut(host, before, "mdev_create", **CREATE)
    assert not done(host, "mdev_look", uuid=UUID)["exists"]
    assert done(host, "mdev_create", **CREATE)["state"] == "in-state"
    assert host.claims() == [f"mdev-{UUID}.json"]


@pytest.mark.parametrize("before", ["/remove", "remove /var/lib/vgpumgr/claims"])
def test_after_a_power_cut_a_removal_finishes(host: FakeHost, before: str) -> None:
    done(host, "mdev_create", **CREATE)
    power_cut(host, before, "mdev_remove", uuid=UUID, claim=CLAIM)
    assert done(host, "mdev_remove", uuid=UUID, claim=CLAIM) == {"exists": False}
    assert host.claims() == []


def test_removing_what_never_was_is_no_error(host: FakeHost) -> None:
    assert done(host, "mdev_remove", uuid=UUID, claim=CLAIM) == {"exists": False}


def test_a_type_with_none_left_is_refused_with_its_numbers(host: FakeHost) -> None:
    foreign(host, OTHER_UUID, "mtty-2")
    foreign(host, "4b20d080-1b54-4048-85b3-a6a62d165c03")
    error = refused(host, "mdev_create", **CREATE)
    assert (error["code"], error["errno"]) == ("refused", "ENOSPC")
    assert error["message"] == "no mtty-2 is left on mtty"
    assert error["why"] == "available_instances is 0, 1 of this type exist"
    assert host.claims() == []


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EIO, "refused"),
        (errno.ENOSPC, "refused"),
        (errno.EINVAL, "refused"),
        (errno.EUSERS, "refused"),
        (errno.EAGAIN, "refused"),
        (errno.ENOMEM, "refused"),
        (errno.EBUSY, "in-use"),
        (errno.ENODEV, "not-found"),
        (errno.EPERM, "not-permitted"),
    ],
)
def test_a_refusal_of_the_kernel_carries_its_errno_and_takes_the_claim_away(
    host: FakeHost, number: int, code: str
) -> None:
    host.refuse["/create"] = number
    error = refused(host, "mdev_create", **CREATE)
    assert (error["code"], error["errno"]) == (code, errno.errorcode[number])
    assert host.claims() == []


def test_an_mdev_that_another_hand_made_in_between_is_left(host: FakeHost) -> None:
    def raced(uuid: str) -> None:
        del host.hooks[create]
        host.hooks[create] = mine
        foreign(host, uuid, "mtty-2")
        raise OSError(errno.EEXIST, "File exists")

    create = "/sys/devices/virtual/mtty/mtty/mdev_supported_types/mtty-2/create"
    mine, host.hooks[create] = host.hooks[create], raced
    error = refused(host, "mdev_create", **CREATE)
    assert (error["code"], error["errno"]) == ("refused", "EEXIST")
    assert done(host, "mdev_look", uuid=UUID)["exists"]


def test_the_claim_stays_where_the_read_back_fails(host: FakeHost) -> None:
    """EIO from ``create`` with a device that can no longer be looked at decides nothing."""

    def fail(_: str) -> None:
        host.unreadable[f"{MDEVS}/{UUID}"] = errno.EIO
        raise OSError(errno.EIO, "Input/output error")

    host.hooks["/sys/devices/virtual/mtty/mtty/mdev_supported_types/mtty-2/create"] = fail
    error = refused(host, "mdev_create", **CREATE)
    assert (error["code"], error["errno"]) == ("unknown", "EIO")
    assert host.claims() == [f"mdev-{UUID}.json"]


def test_a_driver_that_makes_something_else_is_noticed(host: FakeHost) -> None:
    host.hooks["/sys/devices/virtual/mtty/mtty/mdev_supported_types/mtty-2/create"] = lambda uuid: (
        foreign(host, uuid, "mtty-1")
    )
    error = refused(host, "mdev_create", **CREATE)
    assert error["code"] == "refused"
    assert "asked for mtty-2 on mtty, there is mtty-1 on mtty" in error["why"]
    assert host.claims() == [f"mdev-{UUID}.json"], "a device exists: its claim must stay"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parent": "mdpy"}, "no mdev parent mdpy"),
        ({"type": "mtty-9"}, "mtty offers no type mtty-9"),
    ],
)
def test_an_unknown_parent_or_type_is_not_found(
    host: FakeHost, change: dict[str, str], message: str
) -> None:
    error = refused(host, "mdev_create", **{**CREATE, **change})
    assert (error["code"], error["message"]) == ("not-found", message)
    assert host.claims() == []


def test_a_count_that_cannot_be_read_is_unknown_and_nothing_is_made(host: FakeHost) -> None:
    host.unreadable["/sys/class/mdev_bus/mtty/mdev_supported_types/mtty-2/avail"] = errno.EIO
    assert refused(host, "mdev_create", **CREATE)["code"] == "unknown"
    assert host.claims() == []
    assert not done(host, "mdev_look", uuid=UUID)["exists"]


def test_a_full_disk_stops_before_the_device(host: FakeHost) -> None:
    host.refuse[".json"] = errno.ENOSPC
    error = refused(host, "mdev_create", **CREATE)
    assert (error["code"], error["errno"]) == ("refused", "ENOSPC")
    assert not done(host, "mdev_look", uuid=UUID)["exists"]


@pytest.mark.parametrize("verb", ["mdev_create", "mdev_remove"])
def test_a_device_of_another_hand_is_never_touched(host: FakeHost, verb: str) -> None:
    foreign(host)
    host.log.clear()
    args = CREATE if verb == "mdev_create" else {"uuid": UUID, "claim": CLAIM}
    assert refused(host, verb, **args)["code"] == "claim-mismatch"
    assert host.log == [("store", "/var/lib/vgpumgr/epochs/fleet-1")]
    assert done(host, "mdev_look", uuid=UUID)["type"] == "mtty-1"


@pytest.mark.parametrize(
    "presented",
    [
        {"fleet": "fleet-2"},
        {"claim": {**CLAIM, "allocation": "alloc-2"}},
        {"claim": {**CLAIM, "generation": 2}},
        {"claim": {**CLAIM, "generation": 0}},
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_a_claim_that_is_not_ours_is_never_touched(
    host: FakeHost, presented: dict[str, object], exists: bool
) -> None:
    done(host, "mdev_create", **CREATE)
    if not exists:
        host.reboot()
    before = host.files[CLAIM_FILE]
    host.log.clear()
    removal = {"uuid": UUID, "claim": CLAIM, **presented}
    assert refused(host, "mdev_remove", **removal)["code"] == "claim-mismatch"
    assert refused(host, "mdev_create", **{**CREATE, **presented})["code"] == "claim-mismatch"
    assert [path for _, path in host.log if "/epochs/" not in path] == []
    assert host.files[CLAIM_FILE] == before
    assert done(host, "mdev_look", uuid=UUID)["exists"] is exists


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        json.dumps({"unit": f"mdev-{UUID}"}),
        json.dumps(
            {
                "unit": f"mdev-{UUID}",
                "fleet": FLEET,
                "epoch": 1,
                **CLAIM,
                "wanted": {"kind": "teapot"},
            }
        ),
        json.dumps({"unit": "x", "fleet": FLEET, "epoch": 1, **CLAIM, "wanted": {"kind": "mdev"}}),
    ],
)
def test_a_damaged_claim_is_unknown_to_every_verb(host: FakeHost, text: str) -> None:
    host.files[CLAIM_FILE] = text
    assert refused(host, "mdev_look", uuid=UUID)["code"] == "unknown"
    assert refused(host, "mdev_create", **CREATE)["code"] == "unknown"
    assert refused(host, "mdev_remove", uuid=UUID, claim=CLAIM)["code"] == "unknown"
    assert refused(host, "claims")["code"] == "unknown"
    assert host.files[CLAIM_FILE] == text


def test_a_device_in_a_guests_hands_is_not_removed(host: FakeHost) -> None:
    group = done(host, "mdev_create", **CREATE)["iommu_group"]
    host.open_groups.add(group)
    assert done(host, "mdev_look", uuid=UUID)["in_use"] is True
    host.log.clear()
    error = refused(host, "mdev_remove", uuid=UUID, claim=CLAIM)
    assert (error["code"], error["errno"]) == ("in-use", "EBUSY")
    assert host.log == [], "the kernel would block on remove"


@pytest.mark.parametrize("number", [errno.EPERM, errno.EBUSY])
def test_a_driver_that_says_in_use_is_believed(host: FakeHost, number: int) -> None:
    """NVIDIA's driver: EPERM while a VM holds it, EBUSY while its plugin still runs."""
    done(host, "mdev_create", **CREATE)
    host.refuse["/remove"] = number
    error = refused(host, "mdev_remove", uuid=UUID, claim=CLAIM)
    assert (error["code"], error["errno"]) == ("in-use", errno.errorcode[number])
    assert host.claims() == [f"mdev-{UUID}.json"]


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENODEV])
def test_a_removal_already_on_its_way_is_waited_for(host: FakeHost, number: int) -> None:
    done(host, "mdev_create", **CREATE)
    host.refuse["/remove"] = number
    host.on_wait = lambda: host._vanish(UUID) if host.waited > 2 else None
    assert done(host, "mdev_remove", uuid=UUID, claim=CLAIM) == {"exists": False}
    assert host.claims() == []


def test_a_removal_that_never_ends_is_unknown_and_keeps_its_claim(host: FakeHost) -> None:
    done(host, "mdev_create", **CREATE)
    host.hooks[f"/sys/devices/virtual/mtty/mtty/{UUID}/remove"] = lambda _: None
    assert refused(host, "mdev_remove", uuid=UUID, claim=CLAIM)["code"] == "unknown"
    assert host.waited == pytest.approx(10)
    assert host.claims() == [f"mdev-{UUID}.json"]


def test_a_removal_that_is_refused_keeps_its_claim(host: FakeHost) -> None:
    done(host, "mdev_create", **CREATE)
    host.refuse["/remove"] = errno.EIO
    error = refused(host, "mdev_remove", uuid=UUID, claim=CLAIM)
    assert (error["code"], error["errno"]) == ("refused", "EIO")
    assert host.claims() == [f"mdev-{UUID}.json"]


def test_in_use_is_null_where_we_may_not_ask(host: FakeHost) -> None:
    done(host, "mdev_create", **CREATE)
    host.unreadable["/dev/vfio"] = errno.EACCES
    assert done(host, "mdev_look", uuid=UUID)["in_use"] is None


def test_look_says_what_is_not_there(host: FakeHost) -> None:
    assert done(host, "mdev_look", uuid=UUID) == {
        "exists": False,
        "parent": None,
        "type": None,
        "iommu_group": None,
        "in_use": False,
        "claim": None,
    }


def test_a_lower_epoch_changes_nothing(host: FakeHost) -> None:
    done(host, "mdev_create", epoch=5, **CREATE)
    host.log.clear()
    for verb, args in (
        ("mdev_create", {**CREATE, "uuid": OTHER_UUID}),
        ("mdev_remove", {"uuid": UUID, "claim": CLAIM}),
        ("vfio_bind", {"address": "0000:41:00.0", "claim": CLAIM}),
        ("vfio_release", {"address": "0000:41:00.0", "claim": CLAIM}),
        ("forget", {}),
    ):
        error = call(host, verb, epoch=4, **args)["error"]
        assert error["code"] == "stale-epoch"
        assert error["why"] == "it speaks for epoch 4, the host has seen 5"
    assert host.log == []


def test_a_higher_epoch_is_remembered_before_anything_else(host: FakeHost) -> None:
    done(host, "mdev_create", epoch=5, **CREATE)
    assert host.log[0] == ("store", "/var/lib/vgpumgr/epochs/fleet-1")
    assert done(host, "probe")["epochs"] == {"fleet-1": 5}
    assert done(host, "mdev_remove", epoch=6, uuid=UUID, claim=CLAIM) == {"exists": False}
    assert done(host, "probe")["epochs"] == {"fleet-1": 6}


def test_a_damaged_epoch_stops_every_change(host: FakeHost) -> None:
    host.files["/var/lib/vgpumgr/epochs/fleet-1"] = "vier\n"
    assert refused(host, "mdev_create", **CREATE)["code"] == "unknown"
    assert host.log == []
