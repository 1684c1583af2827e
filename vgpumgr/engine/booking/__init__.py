"""Bookings: room kept for them where others are placed, and what a new one would meet."""

from vgpumgr.engine.booking.capacity import desktops_at_a_time
from vgpumgr.engine.booking.keeping import Kept, booked_desktops, kept_from, placing_beside

__all__ = ["Kept", "booked_desktops", "desktops_at_a_time", "kept_from", "placing_beside"]
