"""Pages of VMs."""

from __future__ import annotations

from typing import Any

from vgpumgr.web.item_list import item_list
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Choice, Question, one, page_of, several

_WITH_USERS = Choice(
    "with_users", "Also where users are at work", hint="They are cut off, unsaved work is lost."
)
_FORCE = Choice("force", "By cutting the power", hint="The guest is not asked to shut down.")


def _list(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    return {"list": item_list(answers["vms"]["items"], place)}


PAGES = (
    Page(
        path="/vms",
        title="VMs",
        section="VMs",
        template="vms.html",
        reads=(PageRead("vms", "vm.list"),),
        more=_list,
    ),
    Page(
        path="/vms/{vm}",
        title="VM",
        section="VMs",
        template="vm.html",
        reads=(
            PageRead("vm", "vm.show", named(name="vm")),
            PageRead("trail", "audit.list", lambda p: {"vm": p["vm"], "limit": 20}, needed=False),
        ),
    ),
    Page(
        path="/vms/{vm}/explanation",
        title="Explanation",
        section="VMs",
        template="vm_explanation.html",
        reads=(PageRead("plan", "vm.explain-one", named(name="vm")),),
        live=False,
    ),
    Page(
        path="/vms/{vm}/xml",
        title="Domain XML",
        section="VMs",
        template="vm_xml.html",
        reads=(PageRead("xml", "vm.xml", named(name="vm")),),
        live=False,
    ),
)

QUESTIONS = (
    Question(
        endpoint="vm.start",
        text=several("Start", "VM"),
        button="Start",
        back=page_of("vms"),
    ),
    Question(
        endpoint="vm.stop",
        text=several("Stop", "VM"),
        button="Stop",
        back=page_of("vms"),
        preview="vm.users",
        choices=(_FORCE, _WITH_USERS),
        ends_something=True,
    ),
    Question(
        endpoint="vm.reboot",
        text=several("Reboot", "VM"),
        button="Reboot",
        back=page_of("vms"),
        preview="vm.users",
        choices=(_FORCE, _WITH_USERS),
        ends_something=True,
    ),
    Question(
        endpoint="vm.migrate",
        text=one("Move"),
        button="Move",
        back=page_of("vms", "name"),
        preview="vm.plan-move",
        choices=(
            Choice("to", "To the host", "text", "Empty: the best one"),
            Choice("cold", "By stopping it, and starting it there"),
            _WITH_USERS,
        ),
    ),
    Question(
        endpoint="vm.delete",
        text=several("Delete", "VM"),
        button="Delete",
        back=page_of("vms"),
        preview="vm.preview-delete",
        choices=(
            Choice("keep_disks", "Keep the disks"),
            Choice("force", "Even if it runs", hint="Its power is cut."),
        ),
        ends_something=True,
    ),
)
