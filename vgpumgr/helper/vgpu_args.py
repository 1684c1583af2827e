"""What may come with a vGPU: its GPU instance, its place and its parameters.

The same checks for a caller's arguments and for a claim read back from the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpumgr.helper import arguments

NAMES = ("instance", "placement_id", "params")

_PARAMS = ("frame_rate_limiter",)


def given(args: Mapping[str, Any]) -> dict[str, Any]:
    """All three as a claim keeps them; absent ones are None, None and {}."""
    return {
        "instance": _instance(args),
        "placement_id": arguments.optional_number(args, "placement_id"),
        "params": _params(args),
    }


def _instance(args: Mapping[str, Any]) -> dict[str, Any] | None:
    found = args.get("instance")
    if found is None:
        return None
    if not isinstance(found, dict):
        arguments.bad("instance", "no object")
    arguments.known(found, ("gpu", "profile_id", "start", "size", "make"))
    numbers = {name: arguments.number(found, name) for name in ("profile_id", "start", "size")}
    make = arguments.flag(found, "make")
    return {"gpu": arguments.pci(found, "gpu"), **numbers, "make": make}


def _params(args: Mapping[str, Any]) -> dict[str, int]:
    found = args.get("params")
    if found is None:
        return {}
    if not isinstance(found, dict):
        arguments.bad("params", "no object")
    arguments.known(found, _PARAMS)
    for name in found:
        if arguments.number(found, name) > 1:
            arguments.bad(name, "neither 0 nor 1")
    return dict(found)
