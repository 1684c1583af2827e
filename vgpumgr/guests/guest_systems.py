"""The operating systems that are known by name: one file of ``systems`` each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from vgpumgr.model.codec import from_plain
from vgpumgr.model.guest_system import GuestSystem

_FOLDER = Path(__file__).parent / "systems"


@cache
def systems() -> tuple[str, ...]:
    """The names of all, in order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


@cache
def system(name: str) -> GuestSystem:
    """The system of that name; KeyError where there is none."""
    if name not in systems():
        raise KeyError(name)
    data = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text())
    hyperv = [{"name": key, "attributes": more} for key, more in data.pop("hyperv", {}).items()]
    return from_plain(GuestSystem, {"name": name, "hyperv": hyperv, **data})


@cache
def system_of_id(identity: str) -> str:
    """The name of the system that libosinfo calls so; empty where it is none of these."""
    return next((name for name in systems() if system(name).id == identity), "")
