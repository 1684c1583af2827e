"""`gpu_reset`: nothing that anything uses is reset, and what the reset did is read back."""

from __future__ import annotations

import pytest

from tests.unit.helper.host import CLAIM, GPU, done, refused
from tests.unit.helper.nvidia import TYPE, VF, NvidiaHost

RESET = f"nvidia-smi --gpu-reset -i {GPU}"


@pytest.fixture
def host() -> NvidiaHost:
    """An A100 without VFs, whose remapped rows wait for a reset that ends that."""
    found = NvidiaHost()
    found.vfs_off()
    found.gpu.rows = (0, 1, 1, 0)
    found.programs["nvidia-smi"] = lambda argv: mended(found)
    return found


def mended(host: NvidiaHost) -> tuple[int, str]:
    host.gpu.rows = (0, 1, 0, 0)
    return 0, "GPU was successfully reset."


def runs(host: NvidiaHost) -> list[str]:
    return [path for what, path in host.log if what == "run" and "nvidia-smi" in path]


def test_it_is_reset_and_read_back(host: NvidiaHost) -> None:
    assert done(host, "gpu_reset", gpu=GPU) == {"health": "ok", "health_detail": ""}
    assert runs(host) == [RESET]


def test_a_board_to_be_replaced_is_reset_all_the_same(host: NvidiaHost) -> None:
    host.gpu.rows = (0, 1, 1, 1)
    host.programs["nvidia-smi"] = lambda argv: (0, "")
    assert done(host, "gpu_reset", gpu=GPU)["health"] == "failed"


def test_what_it_did_is_not_taken_from_the_exit_status(host: NvidiaHost) -> None:
    host.programs["nvidia-smi"] = lambda argv: (0, "All done.")
    error = refused(host, "gpu_reset", gpu=GPU)
    assert error["code"] == "refused"
    assert "its health is reset-required: remapped memory rows" in error["why"]
    host.programs["nvidia-smi"] = lambda argv: (255, "In use by another client")
    assert "In use by another client" in refused(host, "gpu_reset", gpu=GPU)["why"]


def test_with_vfs_on_it_is_not_reset(host: NvidiaHost) -> None:
    host.vfs_on()
    error = refused(host, "gpu_reset", gpu=GPU)
    assert (error["code"], error["errno"], runs(host)) == ("refused", "EBUSY", [])


def test_a_vgpu_stops_it_and_so_does_the_claim_of_one_that_the_host_has_lost(
    host: NvidiaHost,
) -> None:
    host.files |= {f"{host.path}/sriov_offset": "4\n", f"{host.path}/sriov_stride": "1\n"}
    host.vfs_on()
    done(host, "vgpu_create", vf=VF, type=TYPE, claim=CLAIM)
    error = refused(host, "gpu_reset", gpu=GPU)
    assert (error["code"], runs(host)) == ("in-use", [])
    host.vfs_off()
    error = refused(host, "gpu_reset", gpu=GPU)
    assert error["code"] == "in-use"
    assert "is claimed for" in error["why"]
    assert runs(host) == []


def test_a_function_that_a_guest_has_is_on_another_driver(host: NvidiaHost) -> None:
    done(host, "vfio_bind", address=GPU, claim=CLAIM, **{"with": []})
    error = refused(host, "gpu_reset", gpu=GPU)
    assert (error["code"], runs(host)) == ("refused", [])
    assert "its driver is vfio-pci" in error["why"]


def test_a_gpu_that_fell_off_the_bus_is_not_reset(host: NvidiaHost) -> None:
    host.files[f"{host.path}/config"] = "\ufffd" * 64
    assert "fell off the bus" in refused(host, "gpu_reset", gpu=GPU)["why"]
    assert runs(host) == []


def test_a_program_that_holds_it_is_named(host: NvidiaHost) -> None:
    host.program_holds("Xorg")
    error = refused(host, "gpu_reset", gpu=GPU)
    assert error["code"] == "in-use"
    assert "Xorg" in error["why"]
    assert runs(host) == []
