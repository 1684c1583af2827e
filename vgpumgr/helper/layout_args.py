"""The parts of a GPU's layout: what is left out is not declared, and nobody's to restore.

The same checks for a caller's arguments and for a claim read back from the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vgpumgr.helper import arguments

NAMES = ("mig", "vfs", "mixed_size", "scheduler", "instances")
POLICIES = ("best-effort", "equal-share", "fixed-share")

_INSTANCE = ("profile_id", "start", "size", "compute")
_MOST = 16  # GPU instances; no board has more


def given(args: Mapping[str, Any]) -> dict[str, Any]:
    """The declared parts as a claim keeps them; absent and null ones are left out."""
    checks: dict[str, Callable[[], object]] = {
        "mig": lambda: arguments.flag(args, "mig"),
        "vfs": lambda: arguments.number(args, "vfs"),
        "mixed_size": lambda: arguments.flag(args, "mixed_size"),
        "scheduler": lambda: arguments.choice(args, "scheduler", POLICIES),
        "instances": lambda: _instances(args["instances"]),
    }
    return {name: check() for name, check in checks.items() if args.get(name) is not None}


def _instances(found: object) -> list[dict[str, Any]]:
    if not isinstance(found, list) or len(found) > _MOST:
        arguments.bad("instances", f"no list of at most {_MOST} GPU instances")
    return [_instance(each) for each in found]


def _instance(found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        arguments.bad("instances", "no list of objects")
    arguments.known(found, _INSTANCE)
    numbers = {name: arguments.number(found, name) for name in ("profile_id", "start", "size")}
    return {**numbers, "compute": list(arguments.numbers(found, "compute"))}
