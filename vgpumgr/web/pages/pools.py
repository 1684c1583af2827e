"""Pages of pools of desktops."""

from __future__ import annotations

from vgpumgr.web.listing import Column, Listing, list_page
from vgpumgr.web.page import Page, PageRead, named
from vgpumgr.web.questions import Choice, Question, at, one, page_of

_LIST = Listing(
    (
        Column("Pool", "name", "pool"),
        Column("State", "state", "state"),
        Column("Image", "image", "image"),
        Column("Profile", "profile"),
        Column("Desktops", "desktops", "number"),
        Column("Ready", "ready", "number"),
        Column("In use", "used", "number"),
        Column("In line", "waiting", "number"),
        Column("Broken", "broken", "number"),
        Column("At most", "max", "number"),
        Column("Tenant", "tenant"),
    )
)

PAGES = (
    list_page("/pools", "Pools", "pool.list", _LIST),
    Page(
        path="/pools/{pool}",
        title="Pool",
        section="Pools",
        template="pool.html",
        reads=(
            PageRead("pool", "pool.show", named(name="pool")),
            PageRead("history", "pool.history", lambda p: {"name": p["pool"], "last": 50}),
        ),
    ),
    Page(
        path="/pools/{pool}/turn",
        title="Next cycle",
        section="Pools",
        template="pool_turn.html",
        reads=(PageRead("turn", "pool.explain", named(name="pool")),),
    ),
)

_BACK = page_of("pools", "name")
QUESTIONS = (
    Question(
        endpoint="pool.scale",
        text=one("Change the sizes of"),
        button="Change",
        back=_BACK,
        choices=(
            Choice("min", "Always at least", "number"),
            Choice("spare", "Ready for the next users", "number"),
            Choice("max", "At most", "number"),
        ),
    ),
    Question(
        endpoint="pool.drain",
        text=one("Drain"),
        button="Drain",
        back=_BACK,
        choices=(Choice("off", "End draining instead"),),
    ),
    Question(
        endpoint="pool.push-image",
        text=one("Change the image of"),
        button="Change",
        back=_BACK,
        choices=(Choice("image", "Image", "text", "NAME@VERSION; users at work keep theirs"),),
    ),
    Question(
        endpoint="pool.delete",
        text=one("Delete"),
        button="Delete",
        back=at("/pools"),
        ends_something=True,
    ),
    Question(
        endpoint="pool.assign",
        text=one("Give a user a desktop of"),
        button="Give",
        back=_BACK,
        choices=(Choice("user", "User", "text"), Choice("groups", "Group of the user", "text")),
    ),
    Question(
        endpoint="pool.release",
        text=lambda asked: f"End the session of {asked.get('user', '')} in {asked.get('name', '')}",
        button="End it",
        back=_BACK,
        choices=(Choice("for_good", "Also delete what the user owns", hint="With its disks."),),
        ends_something=True,
    ),
)
