"""A test for each row of the contract: what its series say of a simulated fleet at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.unit.telemetry.world import GPU, Fleet, Read, made
from vgpumgr.telemetry.contract import CONTRACT

# No row is without a test; these have no source in the product yet.
WITHOUT_SOURCE: set[int] = set()
VDI, VF, MIG, WHOLE, HGX, AMD = "vdi", "vf", "mig", "whole", "hgx", "amd"
GIB = 1 << 30
ZERO_BORN = {"48", "63", "64", "74", "79", "94", "95", "119", "120"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from made(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def read(fleet: Fleet) -> Read:
    """All series, after a fault of each kind that the rows are about."""
    fleet.inject(VF, "gpu", GPU, "hot")
    fleet.inject(VF, "gpu", GPU, "xid", "31")
    fleet.inject(VF, "gpu", GPU, "xid", "95")
    fleet.inject(MIG, "gpu", GPU, "busy")
    fleet.inject(AMD, "latency", "0")
    rounds = fleet.new_rounds(details=True, users=True)
    rounds.take()
    return Read(rounds.take().text)


def ratio(name: str) -> Callable[[Read], None]:
    def check(read: Read) -> None:
        values = [each.value for each in read.of(name)]
        assert values and all(0 <= each <= 1 for each in values)
        assert read.of(name, host=VDI, gpu="0")
        assert not read.of(name, host=WHOLE), "a guest has it"

    return check


def row_1(read: Read) -> None:
    assert read.of("gpu_info", host=VDI, gpu="0", mode="same-size", framework="mdev", rack="r1")
    assert read.of("gpu_info", host=MIG, mode="mig", framework="vfio-vf", driver="580.105.06")
    [given] = read.of("gpu_info", host=WHOLE, framework="passthrough", mode="whole")
    assert given.labels["UUID"].startswith("GPU-")
    [board] = read.of("gpu_info", host=VDI, gpu="1")
    assert (board.labels["pci"], board.labels["model"], board.labels["numa"]) == (
        "0000:43:00.0", "T4", "1",
    )  # fmt: skip
    assert all(board.labels[name] for name in ("serial", "vbios", "UUID"))
    assert len(read.of("gpu_info")) == 14


def row_2(read: Read) -> None:
    ratio("gpu_utilization_ratio")(read)
    assert read.value("gpu_utilization_ratio", host=VDI, gpu="0") > 0
    assert not read.of("gpu_utilization_ratio", host=MIG), "NVML does not tell it with MIG on"


def row_6(read: Read) -> None:
    assert read.value("gpu_framebuffer_total_bytes", host=VDI, gpu="0") == 16 * GIB


def row_7(read: Read) -> None:
    assert read.value("gpu_framebuffer_used_bytes", host=VDI, gpu="0") == 12 * GIB


def row_8(read: Read) -> None:
    assert 0 < read.value("gpu_framebuffer_reserved_bytes", host=VDI, gpu="0") < GIB


def row_9(read: Read) -> None:
    found = dict.fromkeys((VDI, VF, WHOLE, AMD), 0.0)
    for each in read.of("gpu_framebuffer_allocated_bytes"):
        if each.labels["host"] in found:
            found[each.labels["host"]] += each.value / GIB
    assert found == {VDI: 12, VF: 24, WHOLE: 48, AMD: 0}


def row_10(read: Read) -> None:
    assert {each.value for each in read.of("gpu_framebuffer_stranded_bytes", host=VDI)} == {0}


def row_11(read: Read) -> None:
    assert read.value("gpu_temperature_celsius", host=VF, sensor="gpu") == 93
    hot = read.values("gpu_temperature_celsius", "sensor", host=MIG)
    assert 30 < hot["gpu"] < hot["memory"] < 110
    assert not read.of("gpu_temperature_celsius", host=VDI, sensor="memory")


def row_12(read: Read) -> None:
    assert read.value("gpu_temperature_margin_celsius", host=VF) == -3
    assert not read.of("gpu_temperature_margin_celsius", host=VDI), "no Turing board has it"


def row_13(read: Read) -> None:
    found = read.values("gpu_temperature_threshold_celsius", "kind", host=MIG)
    assert found == {"shutdown": 95, "slowdown": 90, "gpu_max": 85, "mem_max": 95}


def row_14(read: Read) -> None:
    assert 8 < read.value("gpu_power_watts", host=VDI, gpu="0") < 70
    assert read.value("gpu_power_watts", host=MIG) > 300, "it is busy"


def row_15(read: Read) -> None:
    found = read.values("gpu_power_limit_watts", "kind", host=MIG)
    assert set(found) == {"enforced", "requested", "default", "min", "max"}
    assert found["min"] < found["default"] == found["enforced"] <= found["max"]


def row_16(read: Read) -> None:
    assert read.types["vgpumgr_gpu_energy_joules"] == "counter"
    assert read.value("gpu_energy_joules_total", host=MIG) > 0


def row_17(read: Read) -> None:
    found = read.values("gpu_clock_hertz", "domain", host=MIG)
    assert found == {"sm": 1.8e9, "memory": 1.6e9, "video": 1.5e9}


def row_18(read: Read) -> None:
    found = read.values("gpu_throttle_seconds_total", "reason", host=VF)
    assert found.keys() == {"power", "sw_thermal", "hw_thermal", "power_brake", "sync_boost"}
    assert found["hw_thermal"] > 0 == found["power_brake"]


def row_19(read: Read) -> None:
    found = read.values("gpu_throttled", "reason", host=VF)
    assert {name for name, value in found.items() if value} == {"hw_thermal"}


def row_20(read: Read) -> None:
    found = {
        (e.labels["type"], e.labels["since"]) for e in read.of("gpu_ecc_errors_total", host=MIG)
    }
    kinds, times = ("corrected", "uncorrected"), ("boot", "life")
    assert found == {(kind, since) for kind in kinds for since in times}
    assert not read.of("gpu_ecc_errors_total", host=VF), "ECC is off"


def row_21(read: Read) -> None:
    found = read.values("gpu_remapped_rows", "cause", host=VF)
    assert found == {"corrected": 0, "uncorrected": 0}


def row_22(read: Read) -> None:
    assert read.value("gpu_row_remap_pending", host=VF) == 0
    assert not read.of("gpu_row_remap_pending", host=MIG), "not told with instances"


def row_23(read: Read) -> None:
    assert read.value("gpu_row_remap_failed", host=VF) == 0


def row_24(read: Read) -> None:
    found = read.values("gpu_remap_banks", "left", host=VF)
    assert found == {"max": 640, "high": 0, "partial": 0, "low": 0, "none": 0}


def row_25(read: Read) -> None:
    assert read.values("gpu_retired_pages", "cause", host=VDI, gpu="0") == {
        "single_bit": 0,
        "double_bit": 0,
    }


def row_26(read: Read) -> None:
    assert read.types["vgpumgr_gpu_xid"] == "counter"
    found = read.values("gpu_xid_total", "xid", host=VF)
    assert found == {**dict.fromkeys(ZERO_BORN, 0), "31": 1, "95": 1}
    assert set(read.values("gpu_xid_total", "xid", host=WHOLE)) == {
        "aer-correctable", "aer-nonfatal", "aer-fatal",
    }  # fmt: skip


def row_27(read: Read) -> None:
    assert [each.labels["host"] for each in read.of("gpu_last_xid_timestamp_seconds")] == [VF]


def row_28(read: Read) -> None:
    assert read.value("gpu_recovery_action", host=VF) == 1
    assert read.value("gpu_recovery_action", host=MIG) == 0


def row_29(read: Read) -> None:
    for host in (VDI, WHOLE, AMD):
        for each in read.of("gpu_info", host=host):
            states = read.values("gpu_health_state", "state", host=host, gpu=each.labels["gpu"])
            assert states == {"healthy": 1, "degraded": 0, "quarantined": 0, "lost": 0}


def row_31(read: Read) -> None:
    assert read.value("gpu_pcie_replays_total", host=MIG) == 0


def row_32(read: Read) -> None:
    found = read.values("gpu_pcie_bytes_total", "direction", host=MIG)
    assert found["rx"] > found["tx"] > 0


def row_33(read: Read) -> None:
    for host in (MIG, WHOLE, AMD):
        found = {(e.labels["what"], e.labels["of"]) for e in read.of("gpu_pcie_link", host=host)}
        assert found == {(what, of) for what in ("width", "gen") for of in ("now", "max")}


def row_34(read: Read) -> None:
    found = read.values("gpu_nvlink_errors_total", "kind", host=HGX, gpu="0")
    assert found == {"replay": 0, "recovery": 0, "crc": 0}
    assert not read.of("gpu_nvlink_errors_total", host=MIG)


def row_35(read: Read) -> None:
    assert set(read.values("gpu_nvlink_bytes_total", "direction", host=HGX, gpu="0")) == {
        "tx",
        "rx",
    }


def row_36(read: Read) -> None:
    by_vm = {each.labels["vm"]: each.labels for each in read.of("vgpu_info")}
    assert by_vm.keys() == {"web", "pair", "model", "all", "spot", "cad-01", "cad-02"}
    assert by_vm["web"]["tenant"] == "blue"
    assert by_vm["model"]["gi"] in {"1", "2"}
    assert by_vm["all"]["vgpu"] == GPU
    desktops = sorted(
        (by_vm[each]["pool"], by_vm[each].get("user", "")) for each in ("cad-01", "cad-02")
    )
    assert desktops == [("cad", ""), ("cad", "ada")]
    assert len(read.of("vgpu_info", vm="pair")) == 2


def row_37(read: Read) -> None:
    engines = {each.labels["engine"] for each in read.of("vgpu_utilization_ratio")}
    assert engines == {"sm", "memory", "encoder", "decoder"}
    told = {each.labels["vgpu"] for each in read.of("vgpu_utilization_ratio", engine="sm")}
    at_work = {e.labels["vgpu"] for e in read.of("vgpu_info") if e.labels["vm"] != "all"}
    assert told == at_work, "each running vGPU, and joined with its VM by the same label"


def row_38(read: Read) -> None:
    used = read.values("vgpu_framebuffer_used_bytes", "vgpu", host=VF)
    assert len(used) == 3 and all(0 < each < 8 * GIB for each in used.values())


def row_39(read: Read) -> None:
    assert set(read.values("vgpu_framebuffer_total_bytes", "vgpu", host=VF).values()) == {8 * GIB}


def row_40(read: Read) -> None:
    assert set(read.values("vgpu_licensed", "vgpu").values()) == {1}


def row_41(read: Read) -> None:
    assert set(read.values("vgpu_license_expiry_timestamp_seconds", "vgpu").values()) == {
        1893456000
    }


def row_42(read: Read) -> None:
    assert set(read.values("vgpu_encoder_sessions", "vgpu").values()) <= {0, 1}


def row_43(read: Read) -> None:
    assert all(
        0 <= each.value <= 60 for each in read.of("vgpu_capture_frames_per_second", host=VDI)
    )


def row_44(read: Read) -> None:
    assert set(read.values("vgpu_frame_rate_limit", "vgpu", host=VDI).values()) == {60}


def row_45(read: Read) -> None:
    found = {each.labels["vm"]: each.labels for each in read.of("gi_info", host=MIG)}
    assert found.keys() == {"model", ""}
    assert (found["model"]["profile"], found["model"]["tenant"]) == ("3g.40gb", "red")


def row_46(read: Read) -> None:
    [model] = read.of("gi_info", vm="model")
    gi = model.labels["gi"]
    of_vgpu = read.value("vgpu_framebuffer_used_bytes", host=MIG)
    assert read.value("gi_framebuffer_used_bytes", host=MIG, gi=gi) == of_vgpu


def row_47(read: Read) -> None:
    [model] = read.of("gi_info", vm="model")
    shares = read.values("gi_sm_utilization_ratio", "gi", host=MIG)
    assert shares.pop(model.labels["gi"]) == 1
    assert set(shares.values()) == {0}


def row_48(read: Read) -> None:
    hosts = {VDI, VF, MIG, WHOLE, HGX, AMD}
    assert read.values("host_up", "host") == dict.fromkeys(hosts, 1)
    assert read.values("host_probe_hung", "host") == dict.fromkeys(hosts, 0)
    assert read.values("host_probe_age_seconds", "host").keys() == hosts
    assert read.values("host_probe_duration_seconds", "host").keys() == hosts


def row_49(read: Read) -> None:
    found = read.of("profile_creatable", profile="T4-4Q")
    assert sorted(each.value for each in found) == [1, 4]
    assert {each.labels["host"] for each in found} == {VDI}
    assert not read.of("profile_creatable", profile="T4-1B"), "nothing of the fleet has it"


def row_50(read: Read) -> None:
    assert 0 <= read.value("fragmentation_ratio") <= 1
    assert read.value("headroom", profile="T4-4Q") == 5
    assert read.value("headroom", profile="passthrough") == 9, "eight of hgx, one of vdi"


def row_51(read: Read) -> None:
    states = read.values("pool_desktops", "state", pool="cad")
    assert states["ready"] == 2
    assert set(states) == {"creating", "ready", "failed", "lost", "unknown", "shelved", "leaving"}


def row_52(read: Read) -> None:
    assert read.value("pool_spare_startable", pool="cad") == 3


def row_53(read: Read) -> None:
    kinds = {"framework": "vfio-vf", "profile": "L40S-8Q", "state": "active"}
    assert read.value("allocations", tenant="blue", **kinds) == 3


def row_54(read: Read) -> None:
    assert read.types["vgpumgr_gpu_seconds"] == "counter"
    classes = {e.labels["class"] for e in read.of("gpu_seconds_total")}
    assert classes == {"on_demand", "spot"}
    assert read.of("gpu_seconds_total", tenant="default", pool="cad", profile="T4-4Q")


def row_55(read: Read) -> None:
    outcomes = read.values("operations_total", "outcome", kind="apply")
    assert outcomes == {"done": 0, "undone": 0, "partly": 0, "failed": 0}


def row_56(read: Read) -> None:
    watts = read.values("rack_power_watts", "rack")
    of_r2 = read.value("gpu_power_watts", host=MIG)
    assert watts["r2"] == pytest.approx(of_r2)
    assert watts.keys() == {"r1", "r2"}
    assert read.values("power_capped_gpus", "rack") == {"r1": 0, "r2": 0}
    assert not read.of("rack_power_budget_watts"), "none is set here"


def row_59(read: Read) -> None:
    assert read.values("licence_seats", "edition") == {"vws": 40}
    assert read.values("licence_seats_used", "edition")["vws"] >= 2


def row_60(read: Read) -> None:
    phases = read.values("guests", "phase")
    assert phases == {"unknown": 0, "starting": 0, "ready": 0, "failed": 0}


def row_30(read: Read) -> None:
    """Of GPUs that have failed before (test_failure_risk.py): none has here."""
    assert not read.of("gpu_failure_risk_ratio")


def row_58(read: Read) -> None:
    """Of meters alone (test_power_meters.py): no budget has one here."""
    assert not read.of("coolant_celsius")
    assert not read.of("pdu_outlet_watts")


def row_57(read: Read) -> None:
    [found] = read.of("host_driver_info", host=MIG)
    assert found.labels.items() >= {"driver": "580.105.06", "branch": "R580"}.items()
    assert not read.of("host_driver_info", host=AMD)


def checks() -> dict[int, Callable[[Read], None]]:
    named = {
        int(name.removeprefix("row_")): check
        for name, check in globals().items()
        if name.startswith("row_")
    }
    ratios = {
        3: ratio("gpu_memory_copy_utilization_ratio"),
        4: ratio("gpu_encoder_utilization_ratio"),
        5: ratio("gpu_decoder_utilization_ratio"),
    }
    return {**named, **ratios}


@pytest.mark.parametrize("number", sorted(checks()))
def test_row(number: int, read: Read) -> None:
    checks()[number](read)


def test_every_row_has_its_test_and_its_number() -> None:
    assert [row.number for row in CONTRACT] == [*range(1, 61)]
    assert checks().keys() | WITHOUT_SOURCE == {row.number for row in CONTRACT}
    assert {row.number for row in CONTRACT if not row.source} == WITHOUT_SOURCE


@pytest.mark.parametrize("row", CONTRACT, ids=lambda row: str(row.number))
def test_the_series_of_a_row_have_its_labels_and_its_type(row: object, read: Read) -> None:
    assert isinstance(row, type(CONTRACT[0]))
    for family in row.families:
        base = family.name.removesuffix("_total")
        found = [each for each in read.series if each.name.startswith(family.name)]
        for each in found:
            more = {"user", "le"} & each.labels.keys()
            assert each.labels.keys() - more <= set(row.labels)
        if len(row.families) == 1 and found:
            assert found[0].labels.keys() >= set(row.labels), family.name
        if found:
            assert read.types.get(base, read.types.get(family.name)) == family.kind


def test_rows_without_a_source_have_no_series(read: Read) -> None:
    for row in CONTRACT:
        if row.number in WITHOUT_SOURCE:
            for family in row.families:
                assert not read.of(family.name.removeprefix("vgpumgr_"))
