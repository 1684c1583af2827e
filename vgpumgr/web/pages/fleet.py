"""Pages of the fleet as a whole: capacity, layouts, drift, images, the trail."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from vgpumgr.web.charts import area_chart
from vgpumgr.web.listing import Column, Listing, list_page
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Choice, Question, at, one

_CAPACITY = Listing(
    (
        Column("Profile", "profile"),
        Column("As", "frameworks", "list"),
        Column("Memory", "memory_mib", "mib"),
        Column("More of it fit now", "fits", "number"),
        Column("In use", "in_use", "number"),
        Column("After a layout", "fits_after", "number"),
        Column("Layout", "layout"),
        Column("Will last, by forecast", "lasting"),
    ),
    hint="profile, framework",
)
_LAYOUTS = Listing(
    (
        Column("GPU", "name", "gpu"),
        Column("Host", "host", "host"),
        Column("Model", "model"),
        Column("MIG", "mig", "pairs"),
        Column("VFs", "vfs", "pairs"),
        Column("Mixed sizes", "mixed_size"),
        Column("Scheduler", "scheduler"),
        Column("Declared", "layout", "pairs"),
    )
)
_IMAGES = Listing(
    (
        Column("Image", "name", "image"),
        Column("State", "state", "state"),
        Column("Format", "format"),
        Column("Size", "virtual_bytes", "bytes"),
        Column("File", "file_bytes", "bytes"),
        Column("Made", "created_at", "when"),
        Column("VMs", "vms", "list"),
        Column("Pools", "pools", "list"),
    )
)
_DRIFT = Listing(
    (
        Column("Kind", "kind"),
        Column("Host", "host", "host"),
        Column("VM", "vm", "vm"),
        Column("GPU", "gpu", "gpu"),
        Column("What differs", "text"),
        Column("Wanted", "wanted"),
        Column("Found", "found"),
        Column("What helps", "next"),
    ),
    hint="kind, host, VM",
)
_TRAIL = Listing(
    (
        Column("When", "at", "when"),
        Column("Event", "event"),
        Column("Who", "by"),
        Column("VM", "vm", "vm"),
        Column("Host", "host", "host"),
        Column("GPU", "gpu", "gpu"),
        Column("Profile", "profile"),
        Column("What", "detail"),
        Column("From", "address"),
        Column("Operation", "operation", "operation"),
    ),
    intro="The newest 1,000 records that match. vgpumgr audit verify checks the seal of all.",
)
_FILTERS = ("vm", "host", "operation", "event", "user", "tenant")


def _trail(place: Place) -> dict[str, Any]:
    return {"limit": 1000, **{key: place[key] for key in _FILTERS if place.get(key)}}


def _use(answers: dict[str, Any], _: Place) -> dict[str, Any]:
    use = answers["use"]
    times = [datetime.fromisoformat(each["at"]) for each in use["items"]]
    values = [each["units"] for each in use["items"]]
    return {"picture": area_chart(times, values, use["units"], "slots")}


def _hours(place: Place) -> dict[str, Any]:
    return {"hours": place["hours"]} if place.get("hours") else {}


PAGES = (
    Page(
        path="/use",
        title="Use",
        section="Use",
        template="use.html",
        reads=(
            PageRead("use", "use.show", _hours),
            PageRead("capacity", "capacity.list", lambda _: {"gauge": False}),
        ),
        live=False,
        more=_use,
    ),
    list_page(
        "/capacity",
        "Capacity",
        "capacity.list",
        _CAPACITY,
        template="capacity.html",
        others=(PageRead("fragmentation", "capacity.fragmentation", needed=False),),
    ),
    list_page("/layouts", "Layouts", "layout.show", _LAYOUTS, template="layouts.html"),
    list_page("/images", "Images", "image.list", _IMAGES, template="images.html"),
    Page(
        path="/images/upload",
        title="Upload an image",
        section="Images",
        template="upload.html",
        reads=(PageRead("uploads", "upload.list"),),
        live=False,
    ),
    Page(
        path="/images/{image}",
        title="Image",
        section="Images",
        template="image.html",
        reads=(PageRead("image", "image.show", named(name="image")),),
    ),
    list_page("/drift", "Drift", "drift.list", _DRIFT, template="drift.html"),
    list_page("/trail", "Trail", "audit.list", _TRAIL, asked=_trail),
)

QUESTIONS = (
    Question(
        endpoint="image.retire",
        text=one("Retire"),
        button="Retire",
        back=at("/images"),
        choices=(Choice("delete_copies", "Also delete its copies on the hosts"),),
        ends_something=True,
    ),
    Question(
        endpoint="heal.apply",
        text=lambda _: "Put right what differs",
        button="Heal",
        back=at("/drift"),
        preview="heal.plan",
    ),
    Question(
        endpoint="defrag.apply",
        text=lambda _: "Move VMs so that there is more room",
        button="Move them",
        back=at("/capacity"),
        preview="defrag.plan",
        choices=(
            Choice("profile", "Profile that is to fit", "text"),
            Choice("count", "How many of it", "number"),
            Choice("allow_cold", "Also by stopping VMs", hint="They start again elsewhere."),
            Choice("at_logoff", "Those with users at work when they log off"),
        ),
        ends_something=True,
    ),
)
