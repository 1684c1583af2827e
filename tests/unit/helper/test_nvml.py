"""What the probe says through NVML and of VFs: a question without an answer is a null field."""

from __future__ import annotations

import errno
import inspect
from typing import Any

import pynvml
import pytest

from tests.unit.helper.host import GPU, PCI, FakeHost, done, gpu_host, refused
from tests.unit.helper.nvidia import MIG_TYPE, OTHER_TYPE, TYPE, VF, VFS, NvidiaHost, vf_file
from tests.unit.helper.nvml import A100, TYPES, FakeGpu, FakeNvml, Gi

OTHER_GPU = "0000:42:00.0"


@pytest.fixture
def host() -> NvidiaHost:
    return NvidiaHost()


MIG_TYPES = [
    {
        "id": number,
        "name": name,
        "profile_id": profile,
        "memory_mib": gib << 10,
        "per_instance": 1,
        "per_vm": 1,
    }
    for number, (name, gib, profile) in TYPES.items()
    if number != 801
]


def gpu_of(host: FakeHost) -> dict[str, Any]:
    [entry] = done(host, "probe")["nvml"]["gpus"]
    return dict(entry)


def unknown(answer: dict[str, Any]) -> dict[str, str]:
    """What of the GPUs could not be read; the machine around them is not there."""
    ours = ("nvml", "devices", "vfs")
    entries = ((each["part"], each["why"]) for each in answer["unknown"])
    return {part: why for part, why in entries if part.startswith(ours)}


@pytest.mark.parametrize(
    "name", [name for name in dir(FakeNvml) if name.startswith("nvml") and name != "nvmlInit"]
)
def test_the_stand_in_is_called_as_nvidia_ml_py_is(name: str) -> None:
    """The fake's functions take what the real ones take, by the same names in the same order."""
    ours = [*inspect.signature(getattr(FakeNvml, name)).parameters][1:]
    assert ours == [*inspect.signature(getattr(pynvml, name)).parameters]


def test_everything_that_nvml_tells(host: NvidiaHost) -> None:
    gpu = host.gpu
    gpu.module_id, gpu.fabric_state, gpu.links = 3, 3, 18
    gpu.caps = {0: 1, 2: 1, 10: 0}
    assert gpu_of(host) == {
        "address": GPU,
        "uuid": "GPU-41",
        "serial": "0324",
        "name": "NVIDIA A100",
        "memory_mib": 81920,
        "health": "ok",
        "health_detail": "",
        "power": None,
        "readings": {
            "recovery_action": 0,
            "uncorrected_errors": None,
            "rows": {"corrected": 0, "uncorrected": 0, "pending": False, "failed": False},
            "pages": {"corrected": None, "uncorrected": None, "pending": False},
            "sram_exceeded": False,
            "slowed": [],
            "link_generation": None,
        },
        "ecc": True,
        "module_id": 3,
        "fabric_state": "completed",
        "nvlinks": 18,
        "mixed_size": False,
        "scheduler": "best-effort",
        "scheduler_timed": True,
        "scheduler_timing": [],
        "vgpu_capabilities": ["fractional-multi-vgpu", "mixed-size"],
        "mig": {
            "enabled": False,
            "pending": False,
            "profiles": [],
            "instances": [],
            "types": MIG_TYPES,
        },
    }
    assert host.fake.open == 0


def test_what_the_board_does_not_have_is_null(host: NvidiaHost) -> None:
    gpu = host.gpu
    gpu.mig = gpu.mixed = gpu.policy = gpu.rows = None
    gpu.caps = {}
    host.fake.fails["nvmlDeviceGetEccMode"] = "NOT_SUPPORTED"
    found = gpu_of(host)
    nothing = (
        "mig",
        "mixed_size",
        "scheduler",
        "scheduler_timing",
        "vgpu_capabilities",
        "ecc",
        "module_id",
    )
    assert [found[name] for name in (*nothing, "fabric_state", "nvlinks")] == [None] * 9
    assert (found["health"], unknown(done(host, "probe"))) == ("ok", {})


@pytest.mark.parametrize(
    "code", ["NOT_SUPPORTED", "NO_PERMISSION", "FUNCTION_NOT_FOUND", "UNKNOWN"]
)
def test_no_refused_question_fails_the_probe(code: str) -> None:
    """One function after another is refused; the fields of the others stay."""
    functions = [name for name in dir(FakeNvml) if name.startswith(("nvmlDeviceGet", "nvmlSys"))]
    for name in functions:
        host = NvidiaHost(mig=True)
        host.fake.fails[name] = code
        seen = done(host, "probe")
        assert "nvml" not in unknown(seen), name
        [entry] = seen["nvml"]["gpus"]
        assert entry["address"] == GPU
        assert entry.keys() == gpu_of(NvidiaHost()).keys()


def test_an_old_library_without_the_functions_is_no_failure(host: NvidiaHost) -> None:
    host.gpu.fabric_state = 2
    host.fake.missing = {"nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetVgpuHeterogeneousMode"}
    found = gpu_of(host)
    assert (found["fabric_state"], found["mixed_size"]) == ("in-progress", None)


def test_profiles_are_told_while_mig_is_off_where_the_driver_does(host: NvidiaHost) -> None:
    host.fake.tells_while_off = True
    mig = gpu_of(host)["mig"]
    assert (mig["enabled"], mig["instances"]) == (False, [])
    assert [each["id"] for each in mig["profiles"]] == [19, 14, 9, 0]
    first = mig["profiles"][0]
    assert (first["name"], first["starts"]) == ("1g.10gb", [0, 1, 2, 3, 4, 5, 6])


def test_places_that_are_not_told_while_mig_is_off_hide_nothing(host: NvidiaHost) -> None:
    host.fake.tells_while_off = True
    host.fake.fails["nvmlDeviceGetGpuInstancePossiblePlacements"] = "NOT_SUPPORTED"
    mig = gpu_of(host)["mig"]
    assert (mig["enabled"], mig["profiles"], mig["instances"]) == (False, [], [])
    assert unknown(done(host, "probe")) == {}


def test_mig_profiles_and_instances(host: NvidiaHost) -> None:
    host.gpu.mig = (1, 0)
    host.gpu.instances[9] = Gi(9, A100[0x0], 2, computes={0: 0})
    mig = gpu_of(host)["mig"]
    assert (mig["enabled"], mig["pending"]) == (True, False)
    assert mig["profiles"][0] == {
        "name": "1g.10gb",
        "id": 19,
        "slices": 1,
        "size": 1,
        "starts": [0, 1, 2, 3, 4, 5, 6],
        "remaining": 6,
    }
    assert [(each["id"], each["size"]) for each in mig["profiles"]] == [
        (19, 1),
        (14, 2),
        (9, 4),
        (0, 8),
    ]
    assert mig["instances"] == [
        {
            "id": 9,
            "profile": "1g.10gb",
            "profile_id": 19,
            "start": 2,
            "size": 1,
            "compute": [{"id": 0, "profile_id": 0}],
        }
    ]


@pytest.mark.parametrize(
    "name", ["nvmlDeviceGetSupportedVgpus", "nvmlVgpuTypeGetGpuInstanceProfileId"]
)
@pytest.mark.parametrize("code", ["FUNCTION_NOT_FOUND", "NOT_SUPPORTED", "UNKNOWN"])
def test_which_types_lie_in_gpu_instances_is_unknown_where_the_driver_does_not_tell(
    host: NvidiaHost, name: str, code: str
) -> None:
    host.fake.fails[name] = code
    assert gpu_of(host)["mig"]["types"] is None
    assert unknown(done(host, "probe")) == {}


def test_a_library_that_does_not_tell_how_many_lie_in_one_instance(host: NvidiaHost) -> None:
    host.fake.missing = {"nvmlVgpuTypeGetMaxInstancesPerGpuInstance"}
    types = gpu_of(host)["mig"]["types"]
    assert types == [{**each, "per_instance": None} for each in MIG_TYPES]


def test_a_library_without_names_leaves_them_to_the_catalogue(host: NvidiaHost) -> None:
    host.gpu.mig = (1, 1)
    host.gpu.instances[9] = Gi(9, A100[0x0], 2)
    host.fake.missing = {"v2"}
    mig = gpu_of(host)["mig"]
    assert (mig["profiles"][0]["name"], mig["profiles"][0]["id"]) == (None, 19)
    assert mig["instances"][0]["profile"] is None


def test_instances_that_may_not_be_read_are_null_and_not_absent(host: NvidiaHost) -> None:
    """Only root may list them."""
    host.gpu.mig = (1, 1)
    host.fake.fails["nvmlDeviceGetGpuInstances"] = "NO_PERMISSION"
    mig = gpu_of(host)["mig"]
    assert (mig["enabled"], mig["instances"], len(mig["profiles"])) == (True, None, 4)


# -- health (behaviour 15)


@pytest.mark.parametrize(
    ("state", "health", "detail"),
    [
        ({"recovery": 1}, "reset-required", "GPU reset"),
        ({"recovery": 2}, "reset-required", "reboot"),
        ({"recovery": 3}, "ok", "peer-to-peer"),
        ({"recovery": 4}, "reset-required", "drain"),
        ({"recovery": 5}, "ok", "IMEX"),
        ({"recovery": 6}, "reset-required", "bus reset"),
        ({"recovery": 7}, "reset-required", "reboot"),
        ({"rows": (0, 1, 1, 0)}, "reset-required", "remapped"),
        ({"rows": (0, 1, 0, 1)}, "failed", "replace the board"),
        ({"rows": (0, 1, 0, 1), "recovery": 3}, "failed", "replace the board"),
        ({"rows": None, "retired": 1}, "reset-required", "retired"),
    ],
)
def test_what_the_driver_wants_done(
    host: NvidiaHost, state: dict[str, Any], health: str, detail: str
) -> None:
    for name, value in state.items():
        setattr(host.gpu, name, value)
    found = gpu_of(host)
    assert found["health"] == health
    assert detail in found["health_detail"]


def test_a_lost_gpu_is_named_and_the_others_are_read(host: NvidiaHost) -> None:
    """Paragraph 15: NVML says GpuIsLost, for the handle already."""
    host.add_function(OTHER_GPU, driver="nvidia", group=13)
    host.fake.gpus[OTHER_GPU] = FakeGpu(OTHER_GPU)
    host.gpu.lost = True
    seen = done(host, "probe")
    lost, well = seen["nvml"]["gpus"]
    assert (lost["address"], lost["health"], lost["uuid"]) == (GPU, "lost", None)
    assert (well["health"], well["uuid"]) == ("ok", "GPU-42")
    assert "nvml" not in unknown(seen)


@pytest.mark.parametrize("code", ["GPU_IS_LOST", "RESET_REQUIRED"])
def test_a_gpu_that_is_lost_in_the_middle(host: NvidiaHost, code: str) -> None:
    host.fake.fails["nvmlDeviceGetMemoryInfo"] = code
    expected = "lost" if code == "GPU_IS_LOST" else "reset-required"
    assert gpu_of(host)["health"] == expected


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetHandleByPciBusId",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetRetiredPagesPendingStatus",
    ],
)
def test_what_nvml_refuses_to_tell_is_unknown_never_ok(host: NvidiaHost, function: str) -> None:
    host.fake.fails[function] = "UNKNOWN"
    found = gpu_of(host)
    assert found["health"] is None
    assert "NVML code 999" in found["health_detail"]


def test_what_the_driver_asks_for_is_known_though_the_rows_are_not(host: NvidiaHost) -> None:
    host.fake.fails["nvmlDeviceGetRemappedRows"] = "UNKNOWN"
    host.gpu.recovery = 1
    assert gpu_of(host)["health"] == "reset-required"


def test_boards_that_neither_remap_nor_retire_are_well(host: NvidiaHost) -> None:
    """M10 (Maxwell) has neither, T4 and V100 retire pages."""
    host.gpu.rows = None
    host.fake.fails["nvmlDeviceGetRetiredPagesPendingStatus"] = "NOT_SUPPORTED"
    host.fake.fails["nvmlDeviceGetFieldValues"] = "NOT_SUPPORTED"
    assert gpu_of(host)["health"] == "ok"


def test_a_configuration_space_of_all_ones_is_a_lost_gpu(host: NvidiaHost) -> None:
    config = f"{host.path}/config"
    host.files[config] = "\ufffd\x10\ufffd"
    assert gpu_of(host)["health"] == "ok"
    host.files[config] = "\ufffd" * 64  # 0xff is no text
    found = gpu_of(host)
    assert (found["health"], found["uuid"]) == ("lost", "GPU-41")
    host.unreadable[f"{PCI}/devices/{GPU}/config"] = errno.EIO
    assert gpu_of(host)["health"] == "ok"


def test_a_gpu_that_nvml_does_not_show_has_no_health(host: NvidiaHost) -> None:
    host.fake.gpus.clear()
    found = gpu_of(host)
    assert (found["health"], found["health_detail"]) == (None, "NVML gives no handle: NVML code 6")


@pytest.mark.parametrize("library", [None, "fails"])
def test_nvml_that_does_not_answer_is_null_and_named(host: NvidiaHost, library: str | None) -> None:
    host.fake.fails["nvmlInit"] = "LIBRARY_NOT_FOUND"
    host.library = library and host.fake
    seen = done(host, "probe")
    assert seen["nvml"] is None
    why = "libnvidia-ml.so.1: NVML Shared Library Not Found"
    expected = why if library else "nvidia-ml-py is not installed beside the helper"
    assert unknown(seen) == {"nvml": expected}


# -- VFs (behaviour 5)


def test_vfs_with_their_vgpus(host: NvidiaHost) -> None:
    host.types[VF] = TYPE
    host.placements[VF] = 16
    [device] = done(host, "probe")["devices"]
    sriov = device["sriov"]
    assert (sriov["total"], sriov["num"]) == (4, 4)
    assert [vf["address"] for vf in sriov["vfs"]] == list(VFS)
    assert sriov["vfs"][0] == {
        "number": 0,
        "address": VF,
        "driver": "nvidia",
        "iommu_group": 80,
        "reset_methods": ["flr"],
        "vgpu": {"creatable": [], "type": TYPE, "instance": None, "placement_id": 16},
    }
    free = {"creatable": [OTHER_TYPE, TYPE], "type": 0, "instance": None, "placement_id": None}
    assert sriov["vfs"][1]["vgpu"] == free, "ENXIO without a vGPU is nothing unknown"
    names = [f"NVIDIA A100-{number}" for number in (OTHER_TYPE, TYPE)]
    assert [(each["id"], each["name"]) for each in sriov["vgpu_types"]] == [
        (OTHER_TYPE, names[0]),
        (TYPE, names[1]),
    ]
    assert unknown(done(host, "probe")) == {}


def test_a_vgpu_in_a_gpu_instance(host: NvidiaHost) -> None:
    host.gpu.mig = (1, 1)
    host.gpu.instances[9] = Gi(9, A100[0x0], 2)
    host.write(vf_file("current_vgpu_type"), str(MIG_TYPE))
    [device] = done(host, "probe")["devices"]
    assert device["sriov"]["vfs"][0]["vgpu"]["instance"] == 9
    assert done(host, "vgpu_look", vf=VF)["instance"] == {"id": 9, "start": 2, "size": 1}
    host.library = None
    where = {"id": 9, "start": None, "size": None}
    assert done(host, "vgpu_look", vf=VF)["instance"] == where


@pytest.mark.parametrize("text", ["", "\n", "Not Applicable\n"])
def test_files_that_say_nothing_are_null(host: NvidiaHost, text: str) -> None:
    host.types[VF] = TYPE
    host.files[host.real(vf_file("placement_id"))] = text
    [device] = done(host, "probe")["devices"]
    assert device["sriov"]["vfs"][0]["vgpu"]["placement_id"] is None


def test_a_vf_file_that_cannot_be_read_is_null_and_named(host: NvidiaHost) -> None:
    host.unreadable[vf_file("creatable")] = errno.EINVAL
    seen = done(host, "probe")
    assert seen["devices"][0]["sriov"]["vfs"][0]["vgpu"]["creatable"] is None
    assert f"vfs {VF} vgpu" in unknown(seen)


def test_vfs_that_are_not_vgpus_have_none(host: NvidiaHost) -> None:
    host.vfs_off()
    host.vfs_on(2, driver=None)
    [device] = done(host, "probe")["devices"]
    vfs = device["sriov"]["vfs"]
    assert [(vf["driver"], vf["vgpu"]) for vf in vfs] == [(None, None)] * 2


def test_siblings_are_the_functions_that_belong_to_the_gpu() -> None:
    host = gpu_host()
    host.library = FakeNvml(FakeGpu(GPU))
    host.add_function("0000:41:00.2", kind="0c0330", driver="xhci_hcd", group=12)
    host.add_function("0000:41:00.3", kind="020000", group=12)  # a NIC is not the GPU's
    host.add_function("0000:42:00.1", kind="040300", group=13)
    [device] = done(host, "probe")["devices"]
    found = [(each["address"], each["driver"]) for each in device["siblings"]]
    assert found == [("0000:41:00.1", "snd_hda_intel"), ("0000:41:00.2", "xhci_hcd")]


# -- gpu_look


def test_one_gpu_as_the_probe_shows_it(host: NvidiaHost) -> None:
    probe = done(host, "probe")
    assert done(host, "gpu_look", gpu=GPU) == {
        "device": probe["devices"][0],
        "nvml": probe["nvml"]["gpus"][0],
        "unknown": [],
    }


def test_without_nvidias_driver_or_library_there_is_no_nvml_entry(host: NvidiaHost) -> None:
    host.library = None
    seen = done(host, "gpu_look", gpu=GPU)
    assert (seen["nvml"], seen["unknown"][0]["part"]) == (None, "nvml")
    del host.links[f"{host.path}/driver"]
    seen = done(host, "gpu_look", gpu=GPU)
    assert (seen["nvml"], seen["unknown"]) == (None, [])
    assert refused(host, "gpu_look", gpu=OTHER_GPU)["code"] == "not-found"
