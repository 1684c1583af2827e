"""The ``restore`` verb: after a boot, claimed units are recreated once their devices are ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vgpumgr.helper import claims, errors, layout_claims, pci, wanted_state
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.claims import Claim
from vgpumgr.helper.devices import carriers, mdev_device, reset, viability
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts import nics
from vgpumgr.helper.nvidia import nvml_session, vf_files, vf_vgpu
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import fabric_partitions, layout_verbs, nic_verbs, vfio

_PAUSE = 0.5
_NVIDIA = "nvidia"


class DevicePatience:
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
        wanted_state.LAYOUT: _gpu,
        wanted_state.MDEV: _mdev,
        wanted_state.VGPU: _vf,
        wanted_state.FABRIC: lambda *_: True,  # fmpm is asked until Fabric Manager has started
        wanted_state.VFIO: _functions,
        wanted_state.NIC: _on_interface,
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
    with nvml_session.session(system) as session:
        session.gpu(gpu)
    return True


def _mdev(system: System, want: dict[str, Any]) -> bool:
    if not mdev_device.exists(system, want["uuid"]):
        mdev_device.require_type(system, want)
    return True


def _vf(system: System, want: dict[str, Any]) -> bool:
    return vf_files.has(system, want["vf"])


def _functions(system: System, want: dict[str, Any]) -> bool:
    return all(pci.exists(system, address) for address in wanted_state.addresses(want))


def _on_interface(system: System, want: dict[str, Any]) -> bool:
    """The VF is on, and its PF has a driver with an interface by which it is set."""
    board = pci.physical(system, want["address"]) if pci.exists(system, want["address"]) else None
    return board is not None and bool(nics.interface_of(system, board))


# GPUs are partitioned first; vGPUs make their own GPU instances; a partition is active before its
# GPUs are given.
_ORDER = (
    wanted_state.LAYOUT,
    wanted_state.MDEV,
    wanted_state.VGPU,
    wanted_state.FABRIC,
    wanted_state.VFIO,
    wanted_state.NIC,
)

# Drivers that load, and programs that look at a GPU as they start: all units together.
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class _NotRestored:
    code: str
    why: str


def restore(call: Call) -> dict[str, Any]:
    """The ``restore`` verb: every claim in turn; one that fails keeps its claim and is named.

    Nothing is tried on a GPU whose partitioning failed.
    """
    readable, failed = _loaded(call.system)
    broken = {gpu for each in failed if (gpu := layout_claims.gpu_of(each["unit"]))}
    patience = DevicePatience(call.system, _PATIENCE_SECONDS)
    restored = []
    for claim in sorted(readable, key=_turn):
        unit = claim["unit"]
        why = _replay(call.system, claim, broken, patience)
        if not why:
            restored.append(unit)
            continue
        failed.append({"unit": unit, "why": why})
        if layout_claims.is_layout(claim):
            broken.add(claim["wanted"]["gpu"])
    return {"restored": restored, "failed": failed}


def _loaded(system: System) -> tuple[list[Claim], list[dict[str, str]]]:
    readable, failed = [], []
    for unit, claim, why in claims.every(system):
        if claim is None:
            failed.append({"unit": unit, "why": why})
        else:
            readable.append(claim)
    return readable, failed


def _turn(claim: Claim) -> int:
    return _ORDER.index(claim["wanted"]["kind"])


def _replay(system: System, claim: Claim, broken: set[str], patience: DevicePatience) -> str:
    """Make one unit; the answer is why it could not be made, or empty."""
    refused = _try(lambda: _require_partitioned(system, claim, broken))
    if refused:
        return refused.why
    patience.until(lambda: is_ready(system, claim["wanted"]))
    refused = _try(lambda: _make(system, claim))
    while refused and refused.code == errors.IN_USE and patience.pause():
        refused = _try(lambda: _make(system, claim))
    return refused.why if refused else ""


def _require_partitioned(system: System, claim: Claim, broken: set[str]) -> None:
    for gpu in sorted(broken):
        if carriers.lives_on(system, claim["wanted"], gpu):
            raise HelperError(errors.REFUSED, f"the layout of {gpu} was not restored")


def _try(action: Callable[[], None]) -> _NotRestored | None:
    try:
        action()
    except HelperError as error:
        why = f"{error.message}: {error.why}" if error.why else error.message
        return _NotRestored(error.code, why)
    except OSError as error:
        return _NotRestored(errors.UNKNOWN, errors.reason(error))
    except Exception as defect:
        # One unit with a shape that nobody foresaw must not keep the others away.
        return _NotRestored(errors.UNKNOWN, f"{type(defect).__name__}: {defect}")
    return None


def _make(system: System, claim: Claim) -> None:
    want = claim["wanted"]
    makers = {
        wanted_state.LAYOUT: layout_verbs.make,
        wanted_state.MDEV: mdev_device.make,
        wanted_state.VGPU: vf_vgpu.make,
        wanted_state.FABRIC: fabric_partitions.make,
        wanted_state.NIC: nic_verbs.make,
    }
    if want["kind"] == wanted_state.VFIO:
        _vfio(system, want, vfio.holder_of(claim["allocation"], claim["generation"]))
    else:
        makers[want["kind"]](system, want)


def _vfio(system: System, want: dict[str, Any], holder: str) -> None:
    main, *companions = wanted_state.addresses(want)
    if not vfio.is_bound(system, want):
        viability.check(system, main, tuple(companions))
        reset.check(system, main, holder)
        vfio.load_driver(system)
    vfio.give(system, want, holder)
