"""Is the device of a claim there? At a boot, drivers are still loading and VFs still binding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vgpumgr.helper import pci, wanted
from vgpumgr.helper.devices import mdev_device
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import nvml, vf_files
from vgpumgr.helper.system import System

_PAUSE = 0.5
_NVIDIA = "nvidia"


class Patience:
    """So many seconds of waiting, for everything that one restore does."""

    def __init__(self, system: System, seconds: float) -> None:
        self._system = system
        self._left = seconds

    def pause(self) -> bool:
        """Wait a little; False when there is no time left."""
        if self._left <= 0:
            return False
        self._system.wait(_PAUSE)
        self._left -= _PAUSE
        return True

    def until(self, done: Callable[[], bool]) -> None:
        """Wait for something to come true, or for the end of all patience."""
        while not done() and self.pause():
            pass


def is_ready(system: System, want: dict[str, Any]) -> bool:
    """Whether it makes sense to try; what cannot be read yet is not ready."""
    tests = {
        wanted.LAYOUT: _gpu,
        wanted.MDEV: _mdev,
        wanted.VGPU: _vf,
        wanted.FABRIC: lambda *_: True,  # fmpm is asked until Fabric Manager has started
        wanted.VFIO: _functions,
    }
    try:
        return tests[want["kind"]](system, want)
    except (HelperError, OSError, ValueError):
        return False


def _gpu(system: System, want: dict[str, Any]) -> bool:
    """On its driver, and known to NVIDIA's library where that is to be asked.

    One that is not on the bus does not come: the kernel lists PCI devices before anything else.
    """
    gpu = want["gpu"]
    if not pci.exists(system, gpu):
        return True
    driver = pci.driver(system, gpu)
    if driver != _NVIDIA:
        return driver is not None
    with nvml.session(system) as session:
        session.gpu(gpu)
    return True


def _mdev(system: System, want: dict[str, Any]) -> bool:
    if not mdev_device.exists(system, want["uuid"]):
        mdev_device.require_type(system, want)
    return True


def _vf(system: System, want: dict[str, Any]) -> bool:
    return vf_files.has(system, want["vf"])


def _functions(system: System, want: dict[str, Any]) -> bool:
    return all(pci.exists(system, address) for address in wanted.addresses(want))
