"""Pages of hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from vgpumgr.web.item_list import item_list
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Choice, Question, at, names_of, one, page_of, several

_KEY = Choice(
    "fingerprint", "Fingerprint of its SSH key", "text", "SHA256:…, as ssh-keygen -lf says there"
)
_LABELS = Choice("labels", "Labels", "words", "KEY=VALUE between spaces")
_LAYOUT = Choice(
    "layout",
    "GPUs are partitioned by",
    "select",
    options=(("declared", "Layouts alone"), ("auto", "VMs, as they need empty ones")),
)


_NOTHING = {"memory_mib": 0, "free_mib": 0}


def _rooms(gpus: Iterable[Mapping[str, Any]]) -> defaultdict[str, dict[str, int]]:
    """The memory of each host's GPUs, and how much of it no VM holds."""
    found: defaultdict[str, dict[str, int]] = defaultdict(_NOTHING.copy)
    for each in gpus:
        all_of_it, units = each["memory_mib"] or 0, max(each["units"], 1)
        found[each["host"]]["memory_mib"] += all_of_it
        found[each["host"]]["free_mib"] += round(all_of_it * (units - each["units_used"]) / units)
    return found


def _list(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    """By name, or those first whose GPUs have the most free memory."""
    rooms, items = _rooms(answers["gpus"]["items"]), answers["hosts"]["items"]
    if place.get("order") == "free":
        items = sorted(items, key=lambda each: -rooms[each["name"]]["free_mib"])
    most_free = "?" + urlencode({**place, "order": "free"})
    return {"list": item_list(items, place), "rooms": rooms, "most_free": most_free}


def _host(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    labels = " ".join(f"{key}={text}" for key, text in answers["host"]["labels"].items())
    return {"room": _rooms(answers["gpus"]["items"])[place["host"]], "labels": labels}


PAGES = (
    Page(
        path="/hosts",
        title="Hosts",
        section="Hosts",
        template="hosts.html",
        reads=(PageRead("hosts", "host.list"), PageRead("gpus", "gpu.list")),
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
        more=_host,
    ),
    Page(
        path="/doctor",
        title="Doctor",
        section="Hosts",
        template="diagnosis.html",
        reads=(PageRead("diagnosis", "doctor.run"),),
        live=False,
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
        text=lambda asked: f"Add the host {asked.get('name', '')}".rstrip(),
        button="Add",
        back=page_of("hosts", "name"),
        intro="Its SSH key is pinned, the helper installed, and what it has is read. Where no "
        "fingerprint is given, the key that it shows is to be confirmed.",
        choices=(
            Choice("name", "Name", "text"),
            Choice("address", "Address", "text", "root@gpu-1.example.org, local, or sim://NAME"),
            _KEY,
            _LABELS,
            _LAYOUT,
            Choice(
                "accelerator",
                "Guests run by",
                "select",
                options=(("auto", "what it has"), ("kvm", "KVM"), ("tcg", "emulation")),
            ),
            Choice(
                "install",
                "Helper",
                "select",
                options=(("true", "install it"), ("false", "probe only")),
            ),
        ),
    ),
    Question(
        endpoint="host.set",
        text=several("Change", "host"),
        button="Change",
        back=page_of("hosts"),
        choices=(_LAYOUT,),
    ),
    Question(
        endpoint="host.set-labels",
        text=one("Change the labels of"),
        button="Change",
        back=page_of("hosts", "name"),
        intro="These are its labels from then on; VMs and pools may ask for hosts by them.",
        choices=(_LABELS,),
    ),
    Question(
        endpoint="host.set-migration",
        text=one("Accept running VMs on"),
        button="Accept them",
        back=page_of("hosts", "name"),
        choices=(
            Choice("address", "Address", "text", "that other hosts send them to"),
            Choice("tls", "TLS", "select", options=(("true", "encrypted"), ("false", "in clear"))),
            Choice("tls_name", "Name in its certificate", "text", "empty: the address"),
            Choice("bandwidth", "Bandwidth at most", "text", "1GiB/s, for instance"),
        ),
    ),
    Question(
        endpoint="host.remove-migration",
        text=one("Accept no running VMs any more on"),
        button="Accept none",
        back=page_of("hosts", "name"),
    ),
    Question(
        endpoint="host.trust",
        text=one("Trust a new SSH key of"),
        button="Trust it",
        back=page_of("hosts", "name"),
        intro="Only where its key was changed on purpose: look at it on the host itself.",
        choices=(_KEY,),
    ),
    Question(
        endpoint="host.upgrade",
        text=several("Install this version's helper on", "host"),
        button="Install",
        back=page_of("hosts"),
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
        endpoint="host.set-fence",
        text=one("Set the fence programs of"),
        button="Set them",
        back=page_of("hosts", "name"),
        intro="They run at the controller, without a shell, when the host is lost: its VMs are "
        "started elsewhere only after the status program has said that it is off.",
        choices=(
            Choice(
                "off", "What switches it off", "lines", "the program, and each argument, a line"
            ),
            Choice("status", "What says whether it is off", "lines", "the same"),
            Choice(
                *("secret", "Secret", "text", "its name; {secret} in an argument is its file"),
                names_of("secrets"),
            ),
        ),
        reads=(PageRead("secrets", "secret.list", needed=False),),
    ),
    Question(
        endpoint="host.check-fence",
        text=one("Run the status program of"),
        button="Run it",
        back=page_of("hosts", "name"),
        intro="Nothing is switched off.",
    ),
    Question(
        endpoint="host.remove-fence",
        text=one("Remove the fence programs of"),
        button="Remove",
        back=page_of("hosts", "name"),
        intro="Once it is lost, its VMs are started elsewhere only at a person's word.",
        ends_something=True,
    ),
    Question(
        endpoint="host.evacuate",
        text=one("Start the VMs of the lost host again elsewhere:"),
        button="Evacuate",
        back=page_of("hosts", "name"),
        preview="host.plan-evacuation",
        intro="Its fence block switches it off, and must say so. Without one, your word is needed.",
        choices=(
            Choice(
                "confirm_off",
                "It is off, and does not boot by itself: its name once more",
                "text",
                "Two running copies of a VM destroy its disk.",
            ),
        ),
        ends_something=True,
    ),
    Question(
        endpoint="host.remove",
        text=one("Remove"),
        button="Remove",
        back=at("/hosts"),
        preview="host.preview-removal",
        choices=(Choice("forget", "It is gone for good", hint="It is not contacted any more."),),
        ends_something=True,
    ),
    Question(
        endpoint="host.undrain",
        text=several("Undrain", "host"),
        button="Undrain",
        back=page_of("hosts"),
    ),
)
