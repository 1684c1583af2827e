"""Pages of the fleet as a whole: capacity, layouts, power, drift, images."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import yaml

from vgpumgr.web.charts import area_chart, lasting_bars
from vgpumgr.web.documents import SOURCE
from vgpumgr.web.listing import Column, Listing, NewThing, RowAction, list_page
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Choice, Question, at, names_of, one

ENOUGH_DAYS = 14
"""The days of history that a forecast takes at least."""
_CAPACITY = Listing(
    (
        Column("Profile", "profile"),
        Column("As", "frameworks", "list"),
        Column("Memory", "memory_mib", "mib"),
        Column("More of it fit now", "fits", "number"),
        Column("In use", "in_use", "number"),
        Column("After a layout", "fits_after", "number"),
        Column("Layout", "layout"),
        Column("Will last, by forecast", "lasting", "lasting"),
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
_BUDGET = """\
apiVersion: vgpumgr/v1
kind: PowerBudget
name: rack-1
watts: 12800
host_labels: {rack: r1}
host_watts: 600
"""
_POWER = Listing(
    (
        Column("Budget", "name"),
        Column("Under", "parent"),
        Column("W", "watts", "number"),
        Column("Planned, W", "planned_watts", "number"),
        Column("Left, W", "left_watts", "number"),
        Column("Measured, W", "measured_watts", "number"),
        Column("Hosts", "hosts", "list"),
        Column("GPUs in use", "gpus_in_use", "number"),
        Column("GPUs held", "held", "number"),
        Column("Meter", "meter"),
    ),
    (RowAction("power.remove", "Remove", {"name": "name"}),),
    (NewThing("power.apply", "Set power budgets", {"text": _BUDGET, "source": SOURCE}),),
    hint="budget, parent",
    intro="What the hosts of a rack or a room may draw: VMs start as long as it is not planned.",
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
_ADOPTABLE = Listing(
    (
        Column("Domain", "domain"),
        Column("Host", "host", "host"),
        Column("Power", "power", "state"),
        Column("GPU parts", "gpus", "list"),
        Column("Can be adopted", "possible"),
        Column("Why not", "why", "list"),
        Column("Notes", "notes", "list"),
    ),
    (RowAction("adopt.apply", "Adopt", {"host": "host", "vms": "domain"}, ("possible", (True,))),),
    intro="Domains that others made. An adopted one keeps running, and is a VM of ours from then.",
)
_SETTINGS = Listing(
    (
        Column("Setting", "name"),
        Column("Value", "value"),
        Column("As it comes", "default"),
    ),
    hint="name, value",
    intro="What this server runs with. Secrets are in files, and are never shown.",
)


def _capacity(place: Place) -> dict[str, Any]:
    """What is to fit: VMs with one part, of so much CPU and memory."""
    asked: dict[str, Any] = {key: place[key] for key in ("vcpus", "memory_mib") if place.get(key)}
    return asked | ({"profiles": place["profiles"].split()} if place.get("profiles") else {})


def _of_host(place: Place) -> dict[str, Any]:
    asked: dict[str, Any] = {"hosts": place["host"].split()} if place.get("host") else {}
    return asked | ({"ignore_foreign": True} if place.get("ignore_foreign") else {})


def _export(place: Place) -> dict[str, Any]:
    asked: dict[str, Any] = {"hosts": place["host"].split()} if place.get("host") else {}
    return asked | ({"format": place["format"]} if place.get("format") else {})


def _export_text(answers: dict[str, Any], _: Place) -> dict[str, Any]:
    """Documents of ours are YAML, as a file has them."""
    export = answers["export"]
    ours = yaml.safe_dump_all(export["documents"], sort_keys=False, allow_unicode=True)
    return {"text": ours if export["documents"] else export["text"]}


def _use(answers: dict[str, Any], _: Place) -> dict[str, Any]:
    use = answers["use"]
    times = [datetime.fromisoformat(each["at"]) for each in use["items"]]
    values = [each["units"] for each in use["items"]]
    units, held = use["units"], use["held"]
    free = [max(0.0, round(units - each, 3)) for each in values]
    capacity = answers["capacity"]["items"]
    return {
        "picture": area_chart(times, values, units, "slots", held),
        "headroom": area_chart(times, free, units, "slots", max(0, units - held)),
        "bars": lasting_bars(capacity),
        "days": max((each["history_days"] for each in capacity), default=0),
        "enough": ENOUGH_DAYS,
    }


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
        asked=_capacity,
        live=False,
        template="capacity.html",
        others=(PageRead("fragmentation", "capacity.fragmentation", needed=False),),
    ),
    list_page("/layouts", "Layouts", "layout.show", _LAYOUTS, template="layouts.html"),
    list_page("/power", "Power", "power.list", _POWER),
    Page(
        path="/layouts/export",
        title="Layouts as they are",
        section="Layouts",
        template="layout_export.html",
        reads=(PageRead("export", "layout.export", _export),),
        live=False,
        more=_export_text,
    ),
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
    list_page(
        "/drift",
        "Drift",
        "drift.list",
        _DRIFT,
        asked=_of_host,
        template="drift.html",
        live=False,
    ),
    list_page(
        "/adoptable",
        "What others made",
        "adopt.list",
        _ADOPTABLE,
        asked=_of_host,
        template="adoptable.html",
        section="Drift",
        live=False,
    ),
    list_page("/settings", "Settings", "settings.show", _SETTINGS),
)

QUESTIONS = (
    Question(
        endpoint="power.apply",
        text=lambda _: "Set power budgets",
        button="Set them",
        back=at("/power"),
        preview="document.plan",
        intro="One of a name that there is becomes as this says. GPUs in use run on; what is "
        "planned and left is on the next page.",
        choices=(Choice("text", "Power budgets, as YAML", "area"),),
    ),
    Question(
        endpoint="power.remove",
        text=one("Remove power budget"),
        button="Remove",
        back=at("/power"),
        ends_something=True,
        intro="It is refused while other budgets are under it.",
    ),
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
        choices=(
            Choice("hosts", "Of these hosts alone", "words", "empty: of all"),
            Choice("vms", "Of these VMs alone", "words", "empty: of all"),
        ),
    ),
    Question(
        endpoint="adopt.apply",
        text=lambda asked: f"Adopt {', '.join(asked.get('vms', []))}",
        button="Adopt",
        back=at("/adoptable"),
        choices=(Choice("tenant", "Tenant", "text", "default if nothing is said"),),
    ),
    Question(
        endpoint="defrag.finish",
        text=lambda _: "End moves of VMs that were interrupted",
        button="End them",
        back=at("/capacity"),
    ),
    Question(
        endpoint="defrag.apply",
        text=lambda _: "Move VMs so that there is more room",
        button="Move them",
        back=at("/capacity"),
        preview="defrag.plan",
        choices=(
            Choice(
                "profile", "Profile that is to fit", "text", "", names_of("capacity", "profile")
            ),
            Choice("count", "How many of it", "number"),
            Choice("free", "Or empty GPUs in all", "number"),
            Choice("max_moves", "Moves at most", "number"),
            Choice("allow_cold", "Also by stopping VMs", hint="They start again elsewhere."),
            Choice("with_users", "Also where users are at work", hint="They are cut off."),
            Choice("at_logoff", "Those with users at work when they log off"),
        ),
        ends_something=True,
        reads=(PageRead("capacity", "capacity.list"),),
        intro="Without a goal: less free GPU memory that no expected request can use.",
    ),
)
