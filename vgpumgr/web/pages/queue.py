"""Pages of what waits and what is reserved: the queue, bookings, quotas."""

from __future__ import annotations

from vgpumgr.web.listing import ChangeForm, Column, Listing, RowAction, list_page
from vgpumgr.web.questions import Choice, Question, at, one, several

_QUEUE = Listing(
    (
        Column("VM", "name"),
        Column("Place", "position", "number"),
        Column("State", "state", "state"),
        Column("Why", "why"),
        Column("Priority", "priority", "number"),
        Column("Since", "since", "when"),
        Column("Starts by", "starts_by", "when"),
        Column("Tenant", "tenant"),
    ),
    (RowAction("queue.cancel", "Cancel", {"names": "name"}, ("state", ("waiting",))),),
)
_BOOKING = (
    Choice("group", "Group", "text"),
    Choice("profile", "Profile", "text", "T4-4Q"),
    Choice("count", "Desktops", "number"),
    Choice("begins", "From", "text", "2026-12-01 08:00"),
    Choice("ends", "To", "text", "2026-12-01 18:00"),
)
_BOOKINGS = Listing(
    (
        Column("Booking", "name"),
        Column("Group", "group"),
        Column("Profile", "profile"),
        Column("Desktops", "count", "number"),
        Column("In use", "in_use", "number"),
        Column("From", "starts_at", "when"),
        Column("To", "ends_at", "when"),
        Column("State", "state", "state"),
        Column("Pool", "pool", "pool"),
        Column("Missing", "missing", "number"),
    ),
    (RowAction("booking.delete", "Delete", {"name": "name"}),),
    (ChangeForm("booking.create", "New booking", _BOOKING),),
)
_QUOTA = (
    Choice("tenant", "Tenant", "text"),
    Choice("gpus", "GPUs at most", "number"),
    Choice("gpu_memory_mib", "GPU memory at most, in MiB", "number"),
    Choice("vcpus", "vCPUs at most", "number"),
    Choice("vms", "VMs at most", "number"),
    Choice("weight", "Weight in the queue", "number"),
)
_QUOTAS = Listing(
    (
        Column("Tenant", "tenant"),
        Column("May hold", "limits", "pairs"),
        Column("Holds", "used", "pairs"),
        Column("Reserved", "reserved", "pairs"),
        Column("Weight", "weight", "number"),
    ),
    (RowAction("quota.delete", "Remove", {"tenant": "tenant"}),),
    (ChangeForm("quota.set", "Set a quota", _QUOTA),),
)

PAGES = (
    list_page("/queue", "Queue", "queue.list", _QUEUE),
    list_page("/bookings", "Bookings", "booking.list", _BOOKINGS),
    list_page("/quotas", "Quotas", "quota.list", _QUOTAS),
)


def _names(choices: tuple[Choice, ...]) -> tuple[str, ...]:
    return tuple(each.name for each in choices)


QUESTIONS = (
    Question(
        endpoint="queue.cancel",
        text=several("Cancel", "waiting VM"),
        button="Cancel it",
        back=at("/queue"),
        ends_something=True,
    ),
    Question(
        endpoint="booking.create",
        text=one("Book desktops for", "group"),
        button="Book",
        back=at("/bookings"),
        shown=_names(_BOOKING),
    ),
    Question(
        endpoint="booking.delete",
        text=one("Delete booking"),
        button="Delete",
        back=at("/bookings"),
        ends_something=True,
    ),
    Question(
        endpoint="quota.set",
        text=one("Set the quota of", "tenant"),
        button="Set",
        back=at("/quotas"),
        shown=_names(_QUOTA),
    ),
    Question(
        endpoint="quota.delete",
        text=one("Remove the quota of", "tenant"),
        button="Remove",
        back=at("/quotas"),
    ),
)
