"""A simulated NVIDIA GPU for tests, and its types by the names users write."""

from __future__ import annotations

import errno
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

import pytest

from vgpumgr.sim.boards.pci_board import pci_board
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvidia.rm_status import RmRefusal, RmStatus

ADDRESS = "0000:41:00.0"


def gpu_of(
    key: str,
    *,
    seed: int = 0,
    driver: str = "550.54.16",
    durable: MutableMapping[str, str] | None = None,
) -> NvidiaGpu:
    """A GPU of that board."""
    kept = {} if durable is None else durable
    return NvidiaGpu(pci_board(key), ADDRESS, seed=seed, durable=kept, driver=driver)


def mig_gpu(key: str, seed: int = 0) -> NvidiaGpu:
    """A GPU in MIG mode."""
    gpu = gpu_of(key, seed=seed)
    assert gpu.set_mig_mode(True) is None
    return gpu


def type_id(gpu: NvidiaGpu, profile: str) -> int:
    """The driver's number of ``A40-8Q``."""
    return next(each.id or 0 for each in gpu.types() if each.profile == profile)


def make(gpu: NvidiaGpu, *profiles: str) -> None:
    """Make these on carriers named after their order, from ``vf0`` on."""
    for profile in profiles:
        gpu.create(f"vf{len(gpu.vgpus)}", type_id(gpu, profile))


@contextmanager
def refused(status: RmStatus) -> Iterator[None]:
    """The resource manager says no with this."""
    with pytest.raises(RmRefusal) as caught:
        yield
    assert caught.value.status is status


@contextmanager
def oserror(number: int) -> Iterator[None]:
    """The kernel says no with this errno."""
    with pytest.raises(OSError) as caught:
        yield
    assert caught.value.errno == number


@contextmanager
def logged(gpu: NvidiaGpu, code: int) -> Iterator[None]:
    """EIO, and the resource manager's code in the kernel log."""
    before = len(gpu.log)
    with oserror(errno.EIO):
        yield
    assert gpu.log[before:][0] == f"NVRM: Failed to add vgpu create request: {code:#x}"
