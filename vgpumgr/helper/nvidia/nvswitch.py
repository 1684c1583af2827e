"""NVSwitch partitions by NVIDIA's Fabric Manager client, ``fmpm``.

``fmpm`` prints JSON for -l, and otherwise nothing or a line with the number of an fmReturn_t.
"""

from __future__ import annotations

import json
import re
from typing import Any

from vgpumgr.helper import errors
from vgpumgr.helper.allowed_programs import FMPM
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

# fmReturn_t of nv_fm_types.h.
NOT_SUPPORTED, IN_USE, NOT_CONFIGURED, NO_CONNECTION = -3, -7, -8, -9
_NAMES = {
    -1: "FM_ST_BADPARAM",
    -2: "FM_ST_GENERIC_ERROR",
    NOT_SUPPORTED: "FM_ST_NOT_SUPPORTED",
    -4: "FM_ST_UNINITIALIZED",
    -5: "FM_ST_TIMEOUT",
    -6: "FM_ST_VERSION_MISMATCH",
    IN_USE: "FM_ST_IN_USE",
    NOT_CONFIGURED: "FM_ST_NOT_CONFIGURED",
    NO_CONNECTION: "FM_ST_CONNECTION_NOT_VALID",
    -10: "FM_ST_NVLINK_ERROR",
}
_LIST_SECONDS, _CHANGE_SECONDS = 10.0, 60.0
_NO_ADDRESS = "00000000:00:00.0"


class FabricError(HelperError):
    """Fabric Manager's refusal with its code; 0 where it gave none."""

    def __init__(self, message: str, number: int, output: str) -> None:
        name = _NAMES.get(number, f"fmReturn {number}" if number else "no code")
        code = errors.IN_USE if number == IN_USE else errors.REFUSED
        super().__init__(code, message, f"{name}: {output.strip()}")
        self.number = number


def facts(system: System) -> dict[str, Any] | None:
    """The ``fabric`` part of a probe: None where no Fabric Manager has partitions to offer."""
    try:
        return {"partitions": partitions(system)}
    except FileNotFoundError:
        return None
    except FabricError as refused:
        if refused.number in (NOT_SUPPORTED, NO_CONNECTION):
            return None
        raise


def partitions(system: System) -> list[dict[str, Any]]:
    """What ``fmpm -l`` lists; FileNotFoundError without fmpm."""
    message = "the fabric partitions could not be listed"
    text = run(system, message, "-l", seconds=_LIST_SECONDS)
    try:
        return [_partition(each) for each in json.loads(text)["partitionInfo"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"fmpm -l cannot be understood: {type(error).__name__}: {error}"
        raise HelperError(errors.UNKNOWN, message, why) from error


def change(system: System, message: str, option: str, partition: int) -> None:
    """``fmpm -a`` or ``-d``; the caller reads back."""
    run(system, message, option, str(partition), seconds=_CHANGE_SECONDS)


def run(system: System, message: str, *options: str, seconds: float) -> str:
    """fmpm's output; FabricError with its code where it names one or fails."""
    status, output = system.run((FMPM, *options), seconds)
    number = _number(status, output)
    if number or status:
        raise FabricError(message, number, output)
    return output


def _number(status: int, output: str) -> int:
    """The code: as printed, else the exit status, which keeps the lowest 8 bits of it."""
    printed = re.search(r"fmReturn: (-?\d+)", output)
    if printed:
        return int(printed.group(1))
    return status - 256 if 128 < status < 256 else 0


def _partition(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": int(entry["partitionId"]),
        "active": int(entry["isActive"]) == 1,
        "gpus": [_gpu(each) for each in entry["gpuInfo"]],
    }


def _gpu(entry: dict[str, Any]) -> dict[str, Any]:
    """From H100 on Fabric Manager names neither UUID nor address."""
    bus_id = str(entry.get("pciBusId") or _NO_ADDRESS).lower()
    domain, _, rest = bus_id.partition(":")
    address = None if bus_id == _NO_ADDRESS else f"{int(domain, 16):04x}:{rest}"
    uuid = str(entry.get("uuid") or "") or None
    return {"physical_id": int(entry["physicalId"]), "uuid": uuid, "address": address}
