"""Whole functions through the helper: what forbids it, binding, and the way back."""

from __future__ import annotations

import errno

import pytest

from tests.unit.helper.host import (
    AUDIO,
    CLAIM,
    GPU,
    PCI,
    FakeHost,
    done,
    gpu_host,
    mtty_host,
    power_cut,
    refused,
)

BIND = {"address": GPU, "with_": [AUDIO], "claim": CLAIM}
RELEASE = {"address": GPU, "claim": CLAIM}
CLAIM_FILE = f"/var/lib/vgpumgr/claims/pci-{GPU}.json"
GPU_PATH = f"/sys/devices/pci0000:40/{GPU}"


@pytest.fixture
def host() -> FakeHost:
    return gpu_host()


def drivers(host: FakeHost) -> tuple[str | None, str | None]:
    return host.driver_of(GPU), host.driver_of(AUDIO)


def untouched(host: FakeHost) -> bool:
    changed = [path for what, path in host.log if what == "write"]
    return not changed and not host.claims() and drivers(host) == ("nvidia", "snd_hda_intel")


def test_bind_takes_every_function_and_remembers_where_it_came_from(host: FakeHost) -> None:
    assert done(host, "vfio_bind", **BIND) == {"driver": "vfio-pci", "original_driver": "nvidia"}
    assert drivers(host) == ("vfio-pci", "vfio-pci")
    seen = done(host, "vfio_look", address=GPU)
    assert (seen["driver"], seen["driver_override"]) == ("vfio-pci", "vfio-pci")
    assert seen["claim"]["wanted"] == {
        "kind": "vfio",
        "address": GPU,
        "original_driver": "nvidia",
        "original_override": "",
        "with": [
            {"address": AUDIO, "original_driver": "snd_hda_intel", "original_override": ""},
        ],
    }


def test_the_claim_is_durable_before_the_bus_is_touched(host: FakeHost) -> None:
    done(host, "vfio_bind", **BIND)
    assert host.log[:2] == [("store", "/var/lib/vgpumgr/epochs/fleet-1"), ("store", CLAIM_FILE)]
    assert [path.rpartition("/")[2] for _, path in host.log[2:]] == [
        *("driver_override", "unbind", "drivers_probe"),
        *("driver_override", "unbind", "drivers_probe"),
        *(GPU, AUDIO),  # below /run: a guest has them
    ]


def test_release_brings_the_drivers_back_and_then_drops_the_claim(host: FakeHost) -> None:
    done(host, "vfio_bind", **BIND)
    host.log.clear()
    assert done(host, "vfio_release", **RELEASE) == {"driver": "nvidia"}
    assert drivers(host) == ("nvidia", "snd_hda_intel")
    assert host.log[-1] == ("remove", CLAIM_FILE)
    seen = done(host, "vfio_look", address=GPU)
    assert (seen["driver_override"], seen["claim"]) == (None, None)


def test_a_function_without_a_driver_goes_back_to_none() -> None:
    host = FakeHost()
    host.add_function(GPU)
    host.add_driver("vfio-pci")
    assert done(host, "vfio_bind", address=GPU, claim=CLAIM)["original_driver"] is None
    assert done(host, "vfio_release", **RELEASE) == {"driver": None}
    assert host.driver_of(GPU) is None


def test_a_function_bound_to_vfio_at_boot_stays_there_afterwards() -> None:
    host = FakeHost()
    host.add_function(GPU, driver="vfio-pci")
    bound = done(host, "vfio_bind", address=GPU, claim=CLAIM)
    assert bound == {"driver": "vfio-pci", "original_driver": "vfio-pci"}
    assert done(host, "vfio_release", **RELEASE) == {"driver": "vfio-pci"}
    assert done(host, "vfio_look", address=GPU)["driver_override"] is None
    assert not [path for _, path in host.log if path.endswith("unbind")]


def test_an_override_of_the_operator_comes_back(host: FakeHost) -> None:
    host.add_driver("pci-stub")
    host.files[f"{GPU_PATH}/driver_override"] = "pci-stub\n"
    host.links[f"{GPU_PATH}/driver"] = f"{PCI}/drivers/pci-stub"
    done(host, "vfio_bind", **BIND)
    assert done(host, "vfio_release", **RELEASE) == {"driver": "pci-stub"}
    assert done(host, "vfio_look", address=GPU)["driver_override"] == "pci-stub"


def test_binding_again_under_the_same_claim_changes_nothing(host: FakeHost) -> None:
    first = done(host, "vfio_bind", **BIND)
    host.open_groups.add(12)  # the guest runs by now
    host.log.clear()
    assert done(host, "vfio_bind", **BIND) == first
    assert host.log == []


@pytest.mark.parametrize(
    "before", ["store /var/lib/vgpumgr/claims", f"{GPU}/driver_override", "unbind", "drivers_probe"]
)
def test_after_a_power_cut_the_same_call_finishes(host: FakeHost, before: str) -> None:
    power_cut(host, before, "vfio_bind", **BIND)
    assert done(host, "vfio_bind", **BIND)["original_driver"] == "nvidia"
    assert drivers(host) == ("vfio-pci", "vfio-pci")
    done(host, "vfio_release", **RELEASE)
    assert drivers(host) == ("nvidia", "snd_hda_intel")


@pytest.mark.parametrize(
    "before", ["driver_override", "unbind", "drivers_probe", "remove /var/lib/vgpumgr/claims"]
)
def test_after_a_power_cut_a_release_finishes(host: FakeHost, before: str) -> None:
    done(host, "vfio_bind", **BIND)
    power_cut(host, before, "vfio_release", **RELEASE)
    assert done(host, "vfio_release", **RELEASE) == {"driver": "nvidia"}
    assert drivers(host) == ("nvidia", "snd_hda_intel")
    assert host.claims() == []


def test_releasing_what_never_was_bound_is_no_error(host: FakeHost) -> None:
    assert done(host, "vfio_release", **RELEASE) == {"driver": "nvidia"}
    assert untouched(host)


def test_a_function_that_another_hand_gave_to_vfio_is_not_released() -> None:
    host = FakeHost()
    host.add_function(GPU, driver="vfio-pci")
    assert refused(host, "vfio_release", **RELEASE)["code"] == "claim-mismatch"
    assert host.driver_of(GPU) == "vfio-pci"


def test_without_an_iommu_it_is_refused() -> None:
    host = FakeHost()
    host.add_function(GPU, driver="nvidia", group=None)
    error = refused(host, "vfio_bind", address=GPU, claim=CLAIM)
    assert error["code"] == "refused"
    assert "IOMMU is off" in error["why"]
    assert host.claims() == []


def test_a_stranger_in_the_group_is_named_and_a_bridge_is_none(host: FakeHost) -> None:
    error = refused(host, "vfio_bind", address=GPU, claim=CLAIM)
    assert (error["code"], error["message"]) == ("refused", "group not viable")
    assert error["why"] == f"the IOMMU group of {GPU}: {AUDIO} is on snd_hda_intel"
    assert untouched(host)


@pytest.mark.parametrize("driver", [None, "pci-stub", "vfio-pci", "mlx5_vfio_pci"])
def test_a_stranger_without_a_host_driver_is_no_obstacle(
    host: FakeHost, driver: str | None
) -> None:
    host.add_function("0000:41:00.2", kind="0c0330", driver=driver)
    done(host, "vfio_bind", **BIND)


def test_a_companion_outside_the_group_is_refused(host: FakeHost) -> None:
    host.add_function("0000:42:00.0", driver="nvidia", group=13)
    error = refused(host, "vfio_bind", address=GPU, with_=[AUDIO, "0000:42:00.0"], claim=CLAIM)
    assert error["message"] == f"0000:42:00.0 is not in the IOMMU group of {GPU}"
    assert untouched(host)


def test_the_boot_console_is_refused(host: FakeHost) -> None:
    host.files[f"{GPU_PATH}/boot_vga"] = "1\n"
    assert refused(host, "vfio_bind", **BIND)["message"] == f"{GPU} is the boot console"
    assert untouched(host)


def test_a_function_with_vfs_is_refused(host: FakeHost) -> None:
    host.files[f"{GPU_PATH}/sriov_numvfs"] = "16\n"
    error = refused(host, "vfio_bind", **BIND)
    assert (error["code"], error["errno"]) == ("refused", "EBUSY")
    assert "sriov_numvfs is 16" in error["why"]
    assert untouched(host)


def test_a_function_that_carries_mdevs_is_refused(host: FakeHost) -> None:
    host.add_parent(GPU, GPU_PATH, {"nvidia-232": 4}, 16)
    uuid = "4b20d080-1b54-4048-85b3-a6a62d165c01"
    create = {"parent": GPU, "type": "nvidia-232", "uuid": uuid, "claim": CLAIM}
    done(host, "mdev_create", **create)
    error = refused(host, "vfio_bind", **BIND)
    assert (error["code"], error["why"]) == ("in-use", uuid)
    assert drivers(host) == ("nvidia", "snd_hda_intel")


def test_a_group_in_a_guests_hands_is_neither_taken_nor_released(host: FakeHost) -> None:
    host.open_groups.add(12)
    error = refused(host, "vfio_bind", **BIND)
    assert (error["code"], error["errno"]) == ("in-use", "EBUSY")
    assert untouched(host)
    host.open_groups.clear()
    done(host, "vfio_bind", **BIND)
    host.open_groups.add(12)
    assert refused(host, "vfio_release", **RELEASE)["code"] == "in-use"
    assert drivers(host) == ("vfio-pci", "vfio-pci")
    assert host.claims() == [f"pci-{GPU}.json"]


def test_a_program_that_holds_the_gpu_is_named_because_unbind_would_wait(host: FakeHost) -> None:
    information = "Model: \t\t Tesla T4\nDevice Minor: \t 3\n"
    host.files[f"/proc/driver/nvidia/gpus/{GPU}/information"] = information
    host.links["/proc/77/fd/5"] = "/dev/nvidia3"
    host.files["/proc/77/comm"] = "nvidia-persiste\n"
    error = refused(host, "vfio_bind", **BIND)
    assert (error["code"], error["errno"]) == ("in-use", "EBUSY")
    assert error["why"].startswith("/dev/nvidia3 is open in nvidia-persiste")
    assert untouched(host)
    host.links["/proc/77/fd/5"] = "/dev/nvidia30"
    done(host, "vfio_bind", **BIND)


def test_vfio_pci_is_loaded_where_it_is_missing() -> None:
    host = FakeHost()
    host.add_function(GPU, driver="nvidia")
    host.programs["modprobe"] = (0, "")
    done(host, "vfio_bind", address=GPU, claim=CLAIM)
    assert ("run", "modprobe vfio-pci") in host.log
    assert host.driver_of(GPU) == "vfio-pci"


@pytest.mark.parametrize("programs", [{}, {"modprobe": (1, "FATAL: Module vfio-pci not found")}])
def test_a_kernel_without_vfio_pci_is_refused_before_the_claim(
    programs: dict[str, tuple[int, str]],
) -> None:
    host = FakeHost()
    host.add_function(GPU, driver="nvidia")
    host.programs = programs
    error = refused(host, "vfio_bind", address=GPU, claim=CLAIM)
    assert error["message"] == "vfio-pci could not be loaded"
    assert host.claims() == []
    assert host.driver_of(GPU) == "nvidia"


@pytest.mark.parametrize("file", ["/driver_override", "nvidia/unbind"])
@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.EBUSY, "in-use"), (errno.EINVAL, "refused"), (errno.ENODEV, "not-found")],
)
def test_a_refusal_of_the_kernel_leaves_the_original_driver_and_no_claim(
    host: FakeHost, file: str, number: int, code: str
) -> None:
    host.refuse[file] = number
    error = refused(host, "vfio_bind", **BIND)
    assert (error["code"], error["errno"]) == (code, errno.errorcode[number])
    assert drivers(host) == ("nvidia", "snd_hda_intel")
    assert host.claims() == []


def test_a_probe_that_fails_without_a_word_is_noticed_and_undone(host: FakeHost) -> None:
    """``drivers_probe`` says nothing when the driver's own probe fails: only reading back tells."""

    def probe(address: str) -> None:
        if "vfio-pci" not in host.read(f"{PCI}/devices/{address}/driver_override"):
            host._probe(address)

    host.hooks[f"{PCI}/drivers_probe"] = probe
    error = refused(host, "vfio_bind", **BIND)
    assert error["code"] == "refused"
    assert error["why"] == "it is on no driver afterwards"
    assert drivers(host) == ("nvidia", "snd_hda_intel")
    assert host.claims() == []


def test_the_claim_stays_where_not_even_the_original_driver_comes_back(host: FakeHost) -> None:
    host.hooks[f"{PCI}/drivers_probe"] = lambda _: None
    error = refused(host, "vfio_bind", **BIND)
    assert "the original driver did not come back either" in error["why"]
    assert host.claims() == [f"pci-{GPU}.json"]


def test_a_release_whose_driver_stays_away_fails_until_it_is_back(host: FakeHost) -> None:
    done(host, "vfio_bind", **BIND)
    del host.files[f"{PCI}/drivers/nvidia/."]  # rmmod
    error = refused(host, "vfio_release", **RELEASE)
    assert (error["code"], error["why"]) == ("refused", "it is on no driver afterwards")
    assert host.claims() == [f"pci-{GPU}.json"]
    host.add_driver("nvidia")
    assert done(host, "vfio_release", **RELEASE) == {"driver": "nvidia"}
    assert host.claims() == []


@pytest.mark.parametrize(
    "presented",
    [
        {"fleet": "fleet-2"},
        {"claim": {**CLAIM, "allocation": "alloc-2"}},
        {"claim": {**CLAIM, "generation": 2}},
    ],
)
def test_a_claim_that_is_not_ours_is_never_touched(
    host: FakeHost, presented: dict[str, object]
) -> None:
    done(host, "vfio_bind", **BIND)
    host.log.clear()
    assert refused(host, "vfio_bind", **{**BIND, **presented})["code"] == "claim-mismatch"
    assert refused(host, "vfio_release", **{**RELEASE, **presented})["code"] == "claim-mismatch"
    assert [path for _, path in host.log if "/epochs/" not in path] == []
    assert drivers(host) == ("vfio-pci", "vfio-pci")


def test_a_function_is_part_of_one_claim_only(host: FakeHost) -> None:
    done(host, "vfio_bind", **BIND)
    other = {**CLAIM, "allocation": "alloc-2"}
    error = refused(host, "vfio_bind", address=AUDIO, claim=other)
    assert (error["code"], error["why"]) == ("claim-mismatch", f"by the claim pci-{GPU}")
    assert refused(host, "vfio_bind", address=GPU, claim=CLAIM)["code"] == "claim-mismatch"


def test_a_function_that_is_not_on_the_bus(host: FakeHost) -> None:
    error = refused(host, "vfio_bind", address="0000:99:00.0", claim=CLAIM)
    assert error["code"] == "not-found"
    assert done(host, "vfio_look", address="0000:99:00.0") == {
        "exists": False,
        "driver": None,
        "driver_override": None,
        "iommu_group": None,
        "in_use": False,
        "claim": None,
    }


def test_a_gpu_that_fell_off_the_bus_can_still_be_released(host: FakeHost) -> None:
    done(host, "vfio_bind", **BIND)
    for address in (GPU, AUDIO):
        del host.links[f"{PCI}/devices/{address}"]
    assert done(host, "vfio_release", **RELEASE) == {"driver": None}
    assert host.claims() == []


def test_a_group_that_cannot_be_read_is_unknown(host: FakeHost) -> None:
    host.unreadable[f"{PCI}/devices/{GPU}/iommu_group"] = errno.EIO
    assert refused(host, "vfio_bind", **BIND)["code"] == "unknown"
    assert untouched(host)


def test_restore_makes_again_what_the_claims_say_without_a_controller(host: FakeHost) -> None:
    host.add_parent("mtty", "/sys/devices/virtual/mtty/mtty", {"mtty-1": 1}, 4)
    uuid = "4b20d080-1b54-4048-85b3-a6a62d165c01"
    create = {"parent": "mtty", "type": "mtty-1", "uuid": uuid, "claim": CLAIM}
    done(host, "mdev_create", **create)
    done(host, "vfio_bind", **BIND)
    host.reboot()
    assert drivers(host) == ("nvidia", "snd_hda_intel")
    answer = {"restored": [f"mdev-{uuid}", f"pci-{GPU}"], "failed": []}
    assert done(host, "restore") == answer
    assert drivers(host) == ("vfio-pci", "vfio-pci")
    assert done(host, "mdev_look", uuid=uuid)["type"] == "mtty-1"
    assert done(host, "restore") == answer, "restoring twice is no error"
    assert done(host, "vfio_release", **RELEASE) == {"driver": "nvidia"}


def test_restore_names_what_fails_and_goes_on() -> None:
    host = mtty_host()
    uuids = [f"4b20d080-1b54-4048-85b3-a6a62d165c0{number}" for number in range(4)]
    for uuid in uuids:
        create = {"parent": "mtty", "type": "mtty-1", "uuid": uuid, "claim": CLAIM}
        done(host, "mdev_create", **create)
    host.reboot()
    taker = "4b20d080-1b54-4048-85b3-a6a62d165cff"
    host.write("/sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/create", taker)
    host.files[f"/var/lib/vgpumgr/claims/mdev-{uuids[0]}.json"] = "{"
    host.files["/var/lib/vgpumgr/claims/pci-0000:01:00.0.json"] = host.files[
        f"/var/lib/vgpumgr/claims/mdev-{uuids[1]}.json"
    ]
    answer = done(host, "restore")
    assert answer["restored"] == [f"mdev-{uuid}" for uuid in uuids[1:]]
    assert [failed["unit"] for failed in answer["failed"]] == [
        f"mdev-{uuids[0]}",
        "pci-0000:01:00.0",
    ]
    assert all("damaged" in failed["why"] for failed in answer["failed"])
    assert len(host.claims()) == 5, "a claim that could not be restored stays"


def test_restore_keeps_the_claim_of_what_the_kernel_refuses() -> None:
    host = mtty_host()
    uuid = "4b20d080-1b54-4048-85b3-a6a62d165c01"
    create = {"parent": "mtty", "type": "mtty-1", "uuid": uuid, "claim": CLAIM}
    done(host, "mdev_create", **create)
    host.reboot()
    host.refuse["/create"] = errno.EIO
    [failed] = done(host, "restore")["failed"]
    assert failed["unit"] == f"mdev-{uuid}"
    assert host.claims() == [f"mdev-{uuid}.json"]
