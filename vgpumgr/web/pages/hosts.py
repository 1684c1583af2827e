"""Pages of hosts."""

from __future__ import annotations

from typing import Any

from vgpumgr.web.item_list import item_list
from vgpumgr.web.listing import ChangeForm
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Choice, Question, at, one, page_of, several

_NEW = ChangeForm(
    "host.add",
    "Add a host",
    (
        Choice("name", "Name", "text"),
        Choice("address", "Address", "text", "root@gpu-1.example.org"),
        Choice(
            "fingerprint", "Fingerprint of its SSH key", "text", "SHA256:…, as ssh-keygen -lf says"
        ),
    ),
)


def _list(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    return {"list": item_list(answers["hosts"]["items"], place), "new": _NEW}


PAGES = (
    Page(
        path="/hosts",
        title="Hosts",
        section="Hosts",
        template="hosts.html",
        reads=(PageRead("hosts", "host.list"),),
        more=_list,
    ),
    Page(
        path="/hosts/{host}",
        title="Host",
        section="Hosts",
        template="host.html",
        reads=(
            PageRead("host", "host.show", named(name="host")),
            PageRead("gpus", "gpu.list", named(host="host")),
            PageRead("vms", "host.vms", named(name="host"), needed=False),
        ),
    ),
    Page(
        path="/hosts/{host}/diagnosis",
        title="Doctor",
        section="Hosts",
        template="diagnosis.html",
        reads=(PageRead("diagnosis", "doctor.run", named(host="host")),),
        live=False,
    ),
)

QUESTIONS = (
    Question(
        endpoint="host.add",
        text=one("Add"),
        button="Add",
        back=page_of("hosts", "name"),
        shown=("name", "address", "fingerprint"),
    ),
    Question(
        endpoint="host.set",
        text=several("Change", "host"),
        button="Change",
        back=page_of("hosts"),
        choices=(Choice("layout", "Layout", "text", "auto: as placement needs it"),),
    ),
    Question(
        endpoint="host.cordon",
        text=several("Cordon", "host"),
        button="Cordon",
        back=page_of("hosts"),
    ),
    Question(
        endpoint="host.uncordon",
        text=several("Uncordon", "host"),
        button="Uncordon",
        back=page_of("hosts"),
    ),
    Question(
        endpoint="host.probe",
        text=several("Probe", "host"),
        button="Probe",
        back=page_of("hosts"),
    ),
    Question(
        endpoint="host.drain",
        text=one("Drain"),
        button="Drain",
        back=page_of("hosts", "name"),
        preview="host.plan-drain",
        choices=(
            Choice("cold", "Move VMs that cannot move while they run by stopping them"),
            Choice("with_users", "Also those with users at work", hint="They are cut off."),
        ),
        ends_something=True,
    ),
    Question(
        endpoint="host.enter-maintenance",
        text=one("Begin maintenance of"),
        button="Begin",
        back=page_of("hosts", "name"),
    ),
    Question(
        endpoint="host.leave-maintenance",
        text=one("End maintenance of"),
        button="End",
        back=page_of("hosts", "name"),
    ),
    Question(
        endpoint="host.evacuate",
        text=one("Start the VMs of the lost host again elsewhere:"),
        button="Evacuate",
        back=page_of("hosts", "name"),
        preview="host.plan-evacuation",
        choices=(
            Choice("confirm_off", "The host is off", hint="You have looked, or it was fenced."),
        ),
        ends_something=True,
    ),
    Question(
        endpoint="host.remove",
        text=one("Remove"),
        button="Remove",
        back=at("/hosts"),
        preview="host.preview-removal",
        ends_something=True,
    ),
    Question(
        endpoint="host.undrain",
        text=several("Undrain", "host"),
        button="Undrain",
        back=page_of("hosts"),
    ),
)
