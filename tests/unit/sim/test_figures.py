"""What the simulated fleet measures: as drivers refuse it, the same at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import OLD, SimWorld, host, vm
from vgpumgr.helper.figure_table import GPU_FIGURES, VGPU_FIGURES
from vgpumgr.model.gpu_figures import GpuFigures, HostFigures
from vgpumgr.model.layout import GpuLayout, InstanceGoal
from vgpumgr.sim.nvidia.gpu_activity import GpuActivity

GPU = "0000:41:00.0"


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[list[SimWorld]]:
    made: list[SimWorld] = []
    yield made
    for each in made:
        each.close()


def world(worlds: list[SimWorld], tmp_path: Path, *boards: str, **fields: object) -> SimWorld:
    made = SimWorld(tmp_path, host(*boards, **fields))
    worlds.append(made)
    made.engine.refresh()
    return made


def figures(made: SimWorld, name: str = "h1") -> HostFigures:
    return made.hosts.open(made.ledger.host(name)).figures()


def first(made: SimWorld) -> GpuFigures:
    return figures(made).gpus[0]


def test_a_vgpu_at_work_is_seen_in_its_own_figures_and_in_its_gpus(
    worlds: list[SimWorld], tmp_path: Path
) -> None:
    made = world(worlds, tmp_path, "T4")
    idle = first(made)
    assert (idle.figures["utilization_percent"], idle.vgpus) == (0, ())
    made.apply(vm("a", "T4-8Q"), vm("b", "T4-8Q"))
    busy = first(made)
    assert busy.vgpus is not None
    shares = [each.figures["sm_percent"] for each in busy.vgpus]
    assert busy.figures["utilization_percent"] == pytest.approx(sum(shares), abs=2)
    assert busy.figures["power_mw"] > idle.figures["power_mw"]
    kept = busy.figures["framebuffer_reserved_bytes"]
    assert busy.figures["framebuffer_used_bytes"] == (16 << 30) - kept
    for each in busy.vgpus:
        assert 0 < each.figures["framebuffer_used_bytes"] < each.figures["framebuffer_total_bytes"]
        assert each.figures["framebuffer_total_bytes"] == 8 << 30
        assert each.figures.keys() == {figure.name for figure in VGPU_FIGURES}


def test_more_than_32_bits_of_memory_are_told(worlds: list[SimWorld], tmp_path: Path) -> None:
    made = world(worlds, tmp_path, "A40")
    made.cut(GpuLayout(vfs=32))
    made.apply(vm("a", "A40-48Q"))
    [vgpu] = first(made).vgpus or ()
    assert vgpu.figures["framebuffer_used_bytes"] > 1 << 32


def test_the_vm_of_a_vgpu_is_told_by_its_uuid(worlds: list[SimWorld], tmp_path: Path) -> None:
    made = world(worlds, tmp_path, "T4")
    made.apply(vm("a", "T4-4Q"))
    [vgpu] = first(made).vgpus or ()
    assert vgpu.vm == made.ledger.vm("a").id
    assert vgpu.mdev == made.ledger.allocations()[0].device


def test_a_vgpu_on_a_vf_has_no_mdev(worlds: list[SimWorld], tmp_path: Path) -> None:
    made = world(worlds, tmp_path, "L40S")
    made.cut(GpuLayout(vfs=32))
    made.apply(vm("a", "L40S-8Q"))
    [vgpu] = first(made).vgpus or ()
    assert (vgpu.mdev, vgpu.vm) == (None, made.ledger.vm("a").id)


def test_the_same_moment_gives_the_same_figures(worlds: list[SimWorld], tmp_path: Path) -> None:
    made = world(worlds, tmp_path, "T4", "T4")
    made.apply(vm("a", "T4-4Q"), vm("b", "T4-8Q"))
    with made.sim.host("h1").lock:
        kernel = made.sim.host("h1").opened().kernel
    gpus = kernel.nvidia.values()
    one, two = ([GpuActivity(gpu, lambda: 1000.0) for gpu in gpus] for _ in range(2))
    assert [each.celsius() for each in one] == [each.celsius() for each in two]
    later = [GpuActivity(gpu, lambda: 1100.0) for gpu in gpus]
    assert [a.milliwatts() for a in one] != [b.milliwatts() for b in later]


def test_counters_only_grow_and_follow_the_power(worlds: list[SimWorld], tmp_path: Path) -> None:
    made = world(worlds, tmp_path, "L40S")
    kernel = made.sim.host("h1").kernel
    before = first(made).figures
    kernel.clock.wait(100.0)
    after = first(made).figures
    spent = after["energy_mj"] - before["energy_mj"]
    assert spent == pytest.approx(100 * before["power_mw"], rel=0.05)


@pytest.mark.parametrize(
    ("board", "fields", "absent"),
    [
        (
            "T4",
            {},
            {
                "temperature_memory_c",
                "margin_c",
                "pcie_tx_bytes",
                "rows_pending",
                "nvlink_tx_bytes",
            },
        ),
        ("L40S", {}, {"temperature_memory_c", "pages_double_bit", "ecc_corrected_boot"}),
        ("H100-SXM5-80GB", {}, {"pages_double_bit", "nvlink_tx_bytes"}),
        ("A40", {"versions": OLD}, {"throttle_hw_thermal_ns", "margin_c"}),
        ("M10", {}, {"energy_mj", "ecc_corrected_boot", "rows_failed", "pages_double_bit"}),
    ],
)
def test_what_a_board_or_its_driver_lacks_is_absent(
    worlds: list[SimWorld], tmp_path: Path, board: str, fields: dict[str, object], absent: set[str]
) -> None:
    found = first(world(worlds, tmp_path, board, **fields)).figures
    assert not absent & found.keys()
    assert {"utilization_percent", "temperature_gpu_c", "power_mw", "link_width"} <= found.keys()
    assert found.keys() <= {each.name for each in GPU_FIGURES}


def test_nvlinks_are_told_where_there_are_some(worlds: list[SimWorld], tmp_path: Path) -> None:
    boards = ["H100-SXM5-80GB"] * 8
    found = first(world(worlds, tmp_path, *boards, fabric="HGX-H100-8")).figures
    assert {"nvlink_tx_bytes", "nvlink_rx_bytes", "nvlink_crc_errors"} <= found.keys()


def test_with_mig_on_the_instances_tell_and_not_the_gpu(
    worlds: list[SimWorld], tmp_path: Path
) -> None:
    made = world(worlds, tmp_path, "H100-PCIE-80GB")
    made.cut(GpuLayout(mig=True, vfs=20, instances=(InstanceGoal(profile="3g.40gb"),) * 2))
    made.apply(vm("a", "3g.40gb"))
    found = first(made)
    assert not {"utilization_percent", "encoder_percent", "rows_pending"} & found.figures.keys()
    [vgpu] = found.vgpus or ()
    shares = {each.id: each.figures["sm_per_myriad"] for each in found.instances or ()}
    assert len(shares) == 2
    assert vgpu.instance is not None and shares.pop(vgpu.instance) > 0
    assert [*shares.values()] == [0]


def test_a_gpu_that_a_guest_has_says_so(worlds: list[SimWorld], tmp_path: Path) -> None:
    made = world(worlds, tmp_path, "L40S")
    made.apply(vm("a", "passthrough"))
    found = first(made)
    assert (found.driver, found.answered, found.xids, found.vgpus) == (
        "vfio-pci",
        False,
        None,
        None,
    )
    assert {"aer_fatal", "link_width"} <= found.figures.keys()
    assert "utilization_percent" not in found.figures


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["busy"], {"utilization_percent": 100, "throttled_power": 1}),
        (["hot"], {"temperature_gpu_c": 93, "margin_c": -3, "throttled_hw_thermal": 1}),
        (["width", "8"], {"link_width": 8, "link_width_max": 16}),
        (["ecc"], {"rows_pending": 1, "rows_uncorrected": 1}),
        (["remap-failed"], {"rows_failed": 1, "banks_none": 1}),
        (["xid", "95"], {"recovery_action": 1}),
    ],
)
def test_what_is_injected_is_measured(
    worlds: list[SimWorld], tmp_path: Path, words: list[str], shown: dict[str, int]
) -> None:
    made = world(worlds, tmp_path, "L40S")
    well = first(made).figures
    made.sim.inject("h1", ["gpu", GPU, *words])
    found = first(made).figures
    assert {name: found[name] for name in shown} == shown
    made.sim.inject("h1", ["clear"])
    assert {name: first(made).figures[name] for name in shown} == {
        name: well[name] for name in shown
    }


def test_xids_are_counted_until_the_boot(worlds: list[SimWorld], tmp_path: Path) -> None:
    made = world(worlds, tmp_path, "L40S", "L40S")
    for _ in range(2):
        made.sim.inject("h1", ["gpu", GPU, "xid", "31"])
    one, two = figures(made).gpus
    assert (one.xids, two.xids) == ({"31": 2}, {})
    assert one.last_xid is not None
    made.sim.inject("h1", ["gpu", GPU, "xid", "48"])
    assert first(made).xids == {"31": 2, "48": 1}
    made.sim.inject("h1", ["reboot"])
    assert first(made).xids == {}


def test_a_guest_without_a_licence(worlds: list[SimWorld], tmp_path: Path) -> None:
    made = world(worlds, tmp_path, "T4")
    made.apply(vm("a", "T4-4Q"))
    made.sim.inject("h1", ["gpu", GPU, "unlicensed"])
    [vgpu] = first(made).vgpus or ()
    assert vgpu.figures["licensed"] == 0


def test_a_lost_gpu_is_not_answered_for(worlds: list[SimWorld], tmp_path: Path) -> None:
    made = world(worlds, tmp_path, "L40S", "L40S")
    made.sim.inject("h1", ["gpu", GPU, "lost"])
    lost, well = figures(made).gpus
    assert (lost.answered, lost.xids) == (False, {"79": 1})
    assert not {"link_width", "link_gen"} & lost.figures.keys()
    assert well.answered


def test_a_driver_that_hangs_costs_its_figures_and_holds_up_who_asks_it(
    worlds: list[SimWorld], tmp_path: Path
) -> None:
    made = world(worlds, tmp_path, "L40S")
    made.sim.inject("h1", ["driver-hang"])
    for _ in range(2):
        found = figures(made)
        assert (found.hung, found.gpus[0].answered) == (True, False)
    probed = threading.Event()
    threading.Thread(target=lambda: (made.facts(), probed.set()), daemon=True).start()
    assert not probed.wait(0.2), "a probe asks the driver, too"
    made.sim.inject("h1", ["clear"])
    assert probed.wait(30.0)
    assert not figures(made).hung
