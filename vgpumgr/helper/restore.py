"""After a boot: make again what the claims say, without a controller."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import claims, errors, mdev, vfio, viable, wanted
from vgpumgr.helper.call import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System


def restore(call: Call) -> dict[str, Any]:
    """The ``restore`` verb: every claim in turn; one that fails keeps its claim and is named."""
    restored, failed = [], []
    for unit, claim, why in claims.every(call.system):
        refusal = _replay(call.system, claim) if claim else why
        if refusal:
            failed.append({"unit": unit, "why": refusal})
        else:
            restored.append(unit)
    return {"restored": restored, "failed": failed}


def _replay(system: System, claim: claims.Claim) -> str:
    """Make one unit; the answer is why it could not be made, or empty."""
    want = claim["wanted"]
    try:
        if want["kind"] == "mdev":
            _mdev(system, want)
        else:
            _vfio(system, want)
    except HelperError as error:
        return f"{error.message}: {error.why}" if error.why else error.message
    except (OSError, ValueError) as error:
        return errors.reason(error) if isinstance(error, OSError) else str(error)
    return ""


def _mdev(system: System, want: dict[str, Any]) -> None:
    if not system.exists(f"{mdev.DEVICES}/{want['uuid']}"):
        mdev.require_room(system, want)
    mdev.make(system, want)


def _vfio(system: System, want: dict[str, Any]) -> None:
    if vfio.is_bound(system, want):
        return
    main, *companions = wanted.addresses(want)
    viable.check(system, main, tuple(companions))
    vfio.load_driver(system)
    vfio.to_vfio(system, want)
