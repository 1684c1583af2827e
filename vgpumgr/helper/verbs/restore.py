"""After a boot: make again what the claims say, without a controller."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import claims, errors, wanted
from vgpumgr.helper.call import Call
from vgpumgr.helper.devices import mdev_device, reset, viable
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import vf_vgpu
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import fabric_partitions, vfio

# vGPUs make their own GPU instances; a partition is active before its GPUs are given.
_ORDER = (wanted.MDEV, wanted.VGPU, wanted.FABRIC, wanted.VFIO)


def restore(call: Call) -> dict[str, Any]:
    """The ``restore`` verb: every claim in turn; one that fails keeps its claim and is named."""
    readable, failed = [], []
    for unit, claim, why in claims.every(call.system):
        if claim is None:
            failed.append({"unit": unit, "why": why})
        else:
            readable.append(claim)
    restored = []
    for claim in sorted(readable, key=_turn):
        refusal = _replay(call.system, claim)
        if refusal:
            failed.append({"unit": claim["unit"], "why": refusal})
        else:
            restored.append(claim["unit"])
    return {"restored": restored, "failed": failed}


def _turn(claim: claims.Claim) -> int:
    return _ORDER.index(claim["wanted"]["kind"])


def _replay(system: System, claim: claims.Claim) -> str:
    """Make one unit; the answer is why it could not be made, or empty."""
    want = claim["wanted"]
    makers = {
        wanted.MDEV: mdev_device.make,
        wanted.VGPU: vf_vgpu.make,
        wanted.FABRIC: fabric_partitions.make,
    }
    try:
        if want["kind"] == wanted.VFIO:
            _vfio(system, want, vfio.holder_of(claim["allocation"], claim["generation"]))
        else:
            makers[want["kind"]](system, want)
    except HelperError as error:
        return f"{error.message}: {error.why}" if error.why else error.message
    except (OSError, ValueError) as error:
        return errors.reason(error) if isinstance(error, OSError) else str(error)
    return ""


def _vfio(system: System, want: dict[str, Any], holder: str) -> None:
    main, *companions = wanted.addresses(want)
    if not vfio.is_bound(system, want):
        viable.check(system, main, tuple(companions))
        reset.check(system, main, holder)
        vfio.load_driver(system)
    vfio.give(system, want, holder)
