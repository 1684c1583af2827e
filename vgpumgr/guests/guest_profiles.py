"""The guest profiles that are shipped, and the bases of the two families: one file each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from vgpumgr.model.codec import from_plain
from vgpumgr.model.guest import GuestProfile
from vgpumgr.model.guest_system import GuestFamily, GuestSystem

_HERE = Path(__file__).parent


@cache
def profiles() -> tuple[str, ...]:
    """The names of all, in order."""
    return tuple(sorted(path.stem for path in (_HERE / "profiles").glob("*.yaml")))


@cache
def profile(name: str) -> GuestProfile:
    """The profile of that name; KeyError where there is none."""
    if name not in profiles():
        raise KeyError(name)
    return _read(_HERE / "profiles" / f"{name}.yaml")


@cache
def base(family: GuestFamily) -> GuestProfile:
    """What every guest of that family has, whatever its profiles."""
    return _read(_HERE / "bases" / f"{family}.yaml")


def suits(found: GuestProfile, system: GuestSystem) -> bool:
    """Is the profile for guests of that system?"""
    return (system.distribution or system.family) in found.systems


def _read(path: Path) -> GuestProfile:
    data = yaml.safe_load(path.read_text())
    return from_plain(GuestProfile, {"name": path.stem, **data})
