"""A guest's first boot and its checks, from its base, its profiles and its own user data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from vgpumgr.guests import cloud_config
from vgpumgr.guests.answer_file import answer_file
from vgpumgr.guests.filled_profile import (
    FilledProfile,
    ProfileError,
    Secret,
    filled,
    parameters_of,
)
from vgpumgr.guests.guest_profiles import base, profile
from vgpumgr.guests.guest_systems import system
from vgpumgr.model.guest import ChosenProfile, GuestCheck, GuestSpec

# The system of a VM that does not say its own.
DEFAULT_SYSTEM = "debian-12"
FACTS = ("name", "host", "tenant", "driver_branch", "last_gpu")
"""What texts of profiles may name of the VM, in addition to their own parameters."""


def _own_name(name: str) -> str:
    return name


def parts(
    guest: GuestSpec, os: str, facts: Mapping[str, str], secret: Secret = _own_name
) -> tuple[FilledProfile, ...]:
    """The base and the profiles, filled in; without ``secret`` they hold names of secrets.
    ProfileError for what cannot be used so.
    """
    found = system(os or DEFAULT_SYSTEM)
    chosen = ChosenProfile(name=str(found.family), parameters=guest.settings)
    first = filled(base(found.family), chosen, found, facts, secret)
    rest = (filled(profile(each.name), each, found, facts, secret) for each in guest.profiles)
    return (first, *rest)


def checks(guest: GuestSpec, os: str, facts: Mapping[str, str]) -> tuple[GuestCheck, ...]:
    """What shows that the guest is ready, in the order in which it is asked."""
    return tuple(check for part in parts(guest, os, facts) for check in part.checks)


def user_data(
    guest: GuestSpec, os: str, facts: Mapping[str, str], own: str | None, secret: Secret = _own_name
) -> str:
    """cloud-init's user data: the guest's parts, then the VM's own. ProfileError or
    CloudConfigError where they do not go together, or cloud-init would not take it.
    """
    sources = [(each.name, each.cloud_config) for each in parts(guest, os, facts, secret)]
    if own is not None:
        sources.append((cloud_config.OWN, cloud_config.read_user_data(own)))
    whole = cloud_config.merged(sources)
    if wrong := cloud_config.problems(whole):
        raise cloud_config.CloudConfigError("; ".join(wrong))
    return cloud_config.text_of(whole)


def windows_files(
    guest: GuestSpec, os: str, facts: Mapping[str, str], secret: Secret = _own_name
) -> dict[str, str]:
    """The files of the seed of a Windows guest, by their paths. ProfileError as above, ValueError
    for a value that XML cannot carry.
    """
    found = system(os)
    values = parameters_of(base(found.family), guest.settings, facts)
    hidden = {name for name, each in base(found.family).parameters.items() if each.secret}
    settings = {k: secret(v) if k in hidden and v else v for k, v in values.items()}
    answers = answer_file(found, facts["name"], settings)
    plan = cloud_config.merged(
        (each.name, each.first_boot) for each in parts(guest, os, facts, secret)
    )
    script = (Path(__file__).parent / "first_boot.ps1").read_text()
    return {
        "autounattend.xml": answers,
        "unattend.xml": answers,
        "vgpumgr/first-boot.ps1": script.replace("\n", "\r\n"),
        "vgpumgr/steps.json": json.dumps(plan, indent=1),
    }


def secrets_of(guest: GuestSpec, os: str) -> tuple[str, ...]:
    """The names of the secrets that its first boot takes."""
    names: dict[str, None] = {}

    def noted(name: str) -> str:
        names[name] = None
        return name

    parts(guest, os, _anything(), noted)
    return tuple(names)


def _anything() -> dict[str, str]:
    return {**dict.fromkeys(FACTS, "x"), "driver_branch": "550", "last_gpu": "0"}


def check(guest: GuestSpec, os: str, own: str | None) -> None:
    """Refuse what would not become a guest: ProfileError, or CloudConfigError of its parts."""
    facts = _anything()
    if system(os or DEFAULT_SYSTEM).is_windows:
        windows_files(guest, os, facts)
        return
    user_data(guest, os, facts, own)


__all__ = ["ProfileError", "check", "checks", "parts", "secrets_of", "user_data", "windows_files"]
