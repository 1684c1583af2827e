"""After a boot: make again what the claims say, without a controller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vgpumgr.helper import claims, errors, layout_claims, wanted
from vgpumgr.helper.call import Call
from vgpumgr.helper.claims import Claim
from vgpumgr.helper.devices import carriers, mdev_device, ready, reset, viable
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import vf_vgpu
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import fabric_partitions, layouts, vfio

# GPUs are partitioned first; vGPUs make their own GPU instances; a partition is active before its
# GPUs are given.
_ORDER = (wanted.LAYOUT, wanted.MDEV, wanted.VGPU, wanted.FABRIC, wanted.VFIO)

# Drivers that load, and programs that look at a GPU as they start: all units together.
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class _Refused:
    code: str
    why: str


def restore(call: Call) -> dict[str, Any]:
    """The ``restore`` verb: every claim in turn; one that fails keeps its claim and is named.

    Nothing is tried on a GPU whose partitioning failed.
    """
    readable, failed = _loaded(call.system)
    broken = {gpu for each in failed if (gpu := layout_claims.gpu_of(each["unit"]))}
    patience = ready.Patience(call.system, _PATIENCE_SECONDS)
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


def _replay(system: System, claim: Claim, broken: set[str], patience: ready.Patience) -> str:
    """Make one unit; the answer is why it could not be made, or empty."""
    refused = _try(lambda: _require_partitioned(system, claim, broken))
    if refused:
        return refused.why
    patience.until(lambda: ready.is_ready(system, claim["wanted"]))
    refused = _try(lambda: _make(system, claim))
    while refused and refused.code == errors.IN_USE and patience.pause():
        refused = _try(lambda: _make(system, claim))
    return refused.why if refused else ""


def _require_partitioned(system: System, claim: Claim, broken: set[str]) -> None:
    for gpu in sorted(broken):
        if carriers.lives_on(system, claim["wanted"], gpu):
            raise HelperError(errors.REFUSED, f"the layout of {gpu} was not restored")


def _try(action: Callable[[], None]) -> _Refused | None:
    try:
        action()
    except HelperError as error:
        why = f"{error.message}: {error.why}" if error.why else error.message
        return _Refused(error.code, why)
    except OSError as error:
        return _Refused(errors.UNKNOWN, errors.reason(error))
    except Exception as defect:
        # One unit with a shape that nobody foresaw must not keep the others away.
        return _Refused(errors.UNKNOWN, f"{type(defect).__name__}: {defect}")
    return None


def _make(system: System, claim: Claim) -> None:
    want = claim["wanted"]
    makers = {
        wanted.LAYOUT: layouts.make,
        wanted.MDEV: mdev_device.make,
        wanted.VGPU: vf_vgpu.make,
        wanted.FABRIC: fabric_partitions.make,
    }
    if want["kind"] == wanted.VFIO:
        _vfio(system, want, vfio.holder_of(claim["allocation"], claim["generation"]))
    else:
        makers[want["kind"]](system, want)


def _vfio(system: System, want: dict[str, Any], holder: str) -> None:
    main, *companions = wanted.addresses(want)
    if not vfio.is_bound(system, want):
        viable.check(system, main, tuple(companions))
        reset.check(system, main, holder)
        vfio.load_driver(system)
    vfio.give(system, want, holder)
