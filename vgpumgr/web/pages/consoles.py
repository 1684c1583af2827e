"""Pages of consoles: a VM's screen and serial line, and the desktop of a pool."""

from __future__ import annotations

from typing import Any

from vgpumgr.model.errors import NotFound
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Question, at, one


def _in_pool(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    found = [each for each in answers["desktops"]["items"] if each["pool"] == place["pool"]]
    if not found:
        raise NotFound(f"no pool {place['pool']} has a desktop for you", next="/desktops")
    return {"pool": place["pool"]}


PAGES = (
    Page(
        path="/desktops",
        title="My desktops",
        section="My desktops",
        template="desktops.html",
        reads=(PageRead("desktops", "desktop.mine"),),
    ),
    Page(
        path="/desktops/{pool}/screen",
        title="Your desktop",
        section="My desktops",
        template="desktop_screen.html",
        reads=(PageRead("desktops", "desktop.mine"),),
        live=False,
        more=_in_pool,
    ),
    Page(
        path="/vms/{vm}/screen",
        title="Screen",
        section="VMs",
        template="screen.html",
        reads=(PageRead("vm", "vm.show", named(name="vm")),),
        live=False,
    ),
    Page(
        path="/vms/{vm}/serial",
        title="Serial console",
        section="VMs",
        template="serial.html",
        reads=(PageRead("vm", "vm.show", named(name="vm")),),
        live=False,
    ),
)

QUESTIONS = (
    Question(
        endpoint="pool.remote-desktop",
        text=one("Make a connect file for your desktop of"),
        button="Make it",
        back=at("/desktops"),
        intro="Remote desktop programs (RDP) open it; the desktop asks for its own password.",
    ),
    Question(
        endpoint="desktop.release",
        text=one("Release your desktop of"),
        button="Release it",
        back=at("/desktops"),
        ends_something=True,
    ),
)
