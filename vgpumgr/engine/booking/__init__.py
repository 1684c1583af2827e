"""Bookings: room kept for them where others are placed, and what a new one would meet."""

from vgpumgr.engine.booking.capacity import desktops_at_a_time
from vgpumgr.engine.booking.keeping import BOOKED, Kept, booked_desktops, placing_beside
from vgpumgr.engine.booking.shortfall import Bookings, Unkept

__all__ = [
    "BOOKED",
    "Bookings",
    "Kept",
    "Unkept",
    "booked_desktops",
    "desktops_at_a_time",
    "placing_beside",
]
