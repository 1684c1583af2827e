"""Guests as data: operating systems, profiles of software, and what prepares a first boot."""

from vgpumgr.guests.guest_systems import system, system_of_id, systems

__all__ = ["system", "system_of_id", "systems"]
