"""``vgpu_params`` of a vGPU: ``name=value,name=value``, taken at the next start of its VM."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from vgpumgr.helper import errors
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

PLACEMENT = "vgpu-placement-id"  # mdev only: a VF has a file of its own


def read(system: System, path: str) -> dict[str, int | str]:
    """The parameters that are set; none without a vGPU (ENXIO), or in a driver without them."""
    try:
        text = system.read(path)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return {}
        raise
    pairs = (pair.partition("=") for pair in text.strip().split(",") if "=" in pair)
    return {name.strip(): _value(value.strip()) for name, _, value in pairs}


def put(system: System, path: str, wanted: Mapping[str, int]) -> None:
    """Set them beside those that are set, and read back; nothing is written when all are."""
    if not wanted:
        return
    message = "the vGPU's parameters were not set"
    if not system.exists(path):
        raise HelperError(errors.REFUSED, message, f"this driver has no {path}")
    there = read(system, path)
    if _has(there, wanted):
        return
    try:
        text = ",".join(f"{name}={value}" for name, value in {**there, **wanted}.items())
        system.write(path, text)
    except OSError as error:
        refusal = errors.from_effect(error, message)
        if error.errno == errno.EPERM:  # a VM has it open
            refusal.code = errors.IN_USE
        raise refusal from error
    found = read(system, path)
    if not _has(found, wanted):
        raise HelperError(errors.REFUSED, message, f"they read {found or 'empty'} afterwards")


def _has(there: Mapping[str, int | str], wanted: Mapping[str, int]) -> bool:
    return all(there.get(name) == value for name, value in wanted.items())


def _value(text: str) -> int | str:
    return int(text) if text.isdigit() else text
