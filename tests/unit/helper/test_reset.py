"""Between two guests a function is reset (behaviour 11); VFs as functions of their own."""

from __future__ import annotations

import errno

import pytest

from tests.unit.helper.host import AUDIO, CLAIM, GPU, PCI, FakeHost, done, gpu_host, refused
from tests.unit.helper.nvidia import VF, NvidiaHost

OTHER = {**CLAIM, "allocation": "alloc-2"}
GIVEN = "/run/vgpumgr/given"


def bind(claim: dict[str, object]) -> dict[str, object]:
    return {"address": GPU, "with_": [AUDIO], "claim": claim}


def release(claim: dict[str, object]) -> dict[str, object]:
    return {"address": GPU, "claim": claim}


def path_of(address: str) -> str:
    return f"/sys/devices/pci0000:40/{address}"


def resets(host: FakeHost) -> list[str]:
    ended = [path for what, path in host.log if what == "write" and path.endswith("/reset")]
    return [path.split("/")[-2] for path in ended]


@pytest.fixture
def host() -> FakeHost:
    host = gpu_host()
    host.files[f"{path_of(GPU)}/reset"] = ""
    return host


def used(host: FakeHost) -> FakeHost:
    """A guest had it, and gave it back."""
    done(host, "vfio_bind", **bind(CLAIM))
    done(host, "vfio_release", **release(CLAIM))
    host.log.clear()
    return host


def test_the_first_guest_since_boot_needs_no_reset(host: FakeHost) -> None:
    done(host, "vfio_bind", **bind(CLAIM))
    assert resets(host) == []
    assert host.files[f"{GIVEN}/{GPU}"] == "alloc-1 1\n"


def test_the_next_guest_gets_a_function_that_was_reset_on_vfio_pci(host: FakeHost) -> None:
    used(host)
    done(host, "vfio_bind", **bind(OTHER))
    assert resets(host) == [GPU], "its audio function has no reset method"
    order = [path.rpartition("/")[2] for _, path in host.log]
    assert order.index("reset") > order.index("drivers_probe")
    assert host.files[f"{GIVEN}/{GPU}"] == "alloc-2 1\n"
    host.log.clear()
    done(host, "vfio_bind", **bind(OTHER))
    assert host.log == [], "and is not reset under it"


def test_companions_are_reset_where_they_can_be(host: FakeHost) -> None:
    host.files[f"{path_of(AUDIO)}/reset"] = ""
    used(host)
    done(host, "vfio_bind", **bind(OTHER))
    assert resets(host) == [GPU, AUDIO]


def test_the_same_guest_coming_back_is_a_new_one(host: FakeHost) -> None:
    used(host)
    done(host, "vfio_bind", **bind(CLAIM))
    assert resets(host) == [GPU]


def test_without_a_reset_method_nothing_is_touched(host: FakeHost) -> None:
    used(host)
    del host.files[f"{path_of(GPU)}/reset"]
    error = refused(host, "vfio_bind", **bind(OTHER))
    assert (error["code"], error["errno"]) == ("refused", "ENOTTY")
    assert "restart the host" in error["why"]
    assert (host.log, host.claims(), host.driver_of(GPU)) == ([], [], "nvidia")


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOTTY, "refused"), (errno.EIO, "refused"), (errno.EAGAIN, "refused")],
)
def test_a_reset_that_fails_gives_the_function_back(host: FakeHost, number: int, code: str) -> None:
    used(host)
    host.refuse["/reset"] = number
    error = refused(host, "vfio_bind", **bind(OTHER))
    assert (error["code"], error["errno"]) == (code, errno.errorcode[number])
    assert (host.claims(), host.driver_of(GPU)) == ([], "nvidia")
    host.refuse.clear()
    done(host, "vfio_bind", **bind(OTHER))
    assert resets(host)[-1] == GPU, "it is still due"


def test_a_companion_that_answers_enotty_is_no_obstacle(host: FakeHost) -> None:
    host.files[f"{path_of(AUDIO)}/reset"] = ""
    used(host)
    host.refuse[f"{AUDIO}/reset"] = errno.ENOTTY
    done(host, "vfio_bind", **bind(OTHER))


def test_a_power_cut_before_the_reset_leaves_it_due(host: FakeHost) -> None:
    """Bound and not reset yet: the helper was cut, the host was not."""
    used(host)
    host.unreadable["/dev/vfio"] = errno.EIO  # the check before the reset
    done_or_not = refused(host, "vfio_bind", **bind(OTHER))
    assert done_or_not["code"] == "unknown"
    host.unreadable.clear()
    done(host, "vfio_bind", **bind(OTHER))
    assert resets(host) == [GPU]


def test_a_reboot_resets_everything(host: FakeHost) -> None:
    used(host)
    host.files.pop(f"{GIVEN}/{GPU}")
    host.files.pop(f"{GIVEN}/{AUDIO}")
    done(host, "vfio_bind", **bind(OTHER))
    assert resets(host) == []


def test_restore_gives_and_notes_it(host: FakeHost) -> None:
    done(host, "vfio_bind", **bind(CLAIM))
    host.reboot()
    for address in (GPU, AUDIO):
        host.files.pop(f"{GIVEN}/{address}")
    host.log.clear()
    assert done(host, "restore") == {"restored": [f"pci-{GPU}"], "failed": []}
    assert (resets(host), host.files[f"{GIVEN}/{GPU}"]) == ([], "alloc-1 1\n")


def test_a_function_that_fell_off_the_bus_is_not_given(host: FakeHost) -> None:
    """Paragraph 15: its configuration space reads all ones."""
    host.files[f"{path_of(GPU)}/config"] = "\ufffd" * 64
    error = refused(host, "vfio_bind", **bind(CLAIM))
    assert (error["code"], error["message"]) == ("refused", f"{GPU} fell off the bus")


# -- VFs


def test_a_vf_is_given_like_any_function_and_reset_between_guests() -> None:
    host = NvidiaHost()
    bound = done(host, "vfio_bind", address=VF, claim=CLAIM)
    assert bound == {"driver": "vfio-pci", "original_driver": "nvidia"}
    done(host, "vfio_release", address=VF, claim=CLAIM)
    done(host, "vfio_bind", address=VF, claim=OTHER)
    assert resets(host) == [VF]
    assert host.driver_of(VF) == "vfio-pci"


def test_a_vf_without_a_driver_goes_back_to_none() -> None:
    host = NvidiaHost(vfs=False)
    host.add_driver("xe")
    host.links[f"{host.path}/driver"] = f"{PCI}/drivers/xe"
    host.vfs_on(2, driver=None)
    assert done(host, "vfio_bind", address=VF, claim=CLAIM)["original_driver"] is None
    assert done(host, "vfio_release", address=VF, claim=CLAIM) == {"driver": None}
