"""Guests as data: operating systems, profiles of software, and what prepares a first boot."""

from vgpumgr.guests.cloud_config import CloudConfigError
from vgpumgr.guests.filled_profile import ProfileError
from vgpumgr.guests.guest_profiles import base, profile, profiles, suits
from vgpumgr.guests.guest_set_up import (
    DEFAULT_SYSTEM,
    FACTS,
    check,
    checks,
    secrets_of,
    user_data,
    windows_files,
)
from vgpumgr.guests.guest_systems import system, system_of_id, systems

__all__ = [
    "DEFAULT_SYSTEM",
    "FACTS",
    "CloudConfigError",
    "ProfileError",
    "base",
    "check",
    "checks",
    "profile",
    "profiles",
    "secrets_of",
    "suits",
    "system",
    "system_of_id",
    "systems",
    "user_data",
    "windows_files",
]
