"""Pages of VMs."""

from __future__ import annotations

from typing import Any

from vgpumgr import guests
from vgpumgr.web.documents import SOURCE
from vgpumgr.web.item_list import item_list
from vgpumgr.web.listing import Column, Listing, NewThing, RowAction, list_page
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Answers, Choice, Question, at, names_of, one, page_of, several

_WITH_USERS = Choice(
    "with_users", "Also where users are at work", hint="They are cut off, unsaved work is lost."
)
_HOSTS = PageRead("hosts", "host.list")
_FORCE = Choice("force", "By cutting the power", hint="The guest is not asked to shut down.")


def _list(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    return {"list": item_list(answers["vms"]["items"], place)}


_GUEST_PROFILES = Listing(
    (
        Column("Guest profile", "name", "guest-profile"),
        Column("What it makes", "title"),
        Column("For", "systems", "list"),
        Column("The VM's file must have", "needs", "list"),
        Column("Packages", "packages", "list"),
    ),
    hint="name, system, package",
    intro="Software that a guest gets at its first boot, and the checks that show that it works: "
    "guest: {profiles: [NAME]} in a VM's file.",
)
_FLAVOUR = """\
apiVersion: vgpumgr/v1
kind: Flavour
name: small
vcpus: 4
memory: 8GiB
"""
_FLAVOURS = Listing(
    (
        Column("Flavour", "name"),
        Column("Keys", "keys", "pairs"),
        Column("Class of hosts", "host_class"),
        Column("VMs", "vms", "list"),
        Column("Pools", "pools", "list"),
        Column("Set", "set_at", "when"),
        Column("By", "set_by"),
    ),
    (RowAction("flavour.delete", "Delete", {"name": "name"}),),
    (NewThing("flavour.apply", "Set flavours", {"text": _FLAVOUR, "source": SOURCE}),),
    hint="name, VM, pool",
    intro="Sizes of VMs by name: flavour: NAME in a VM's file.",
)

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
        trail_of="vm",
        template="vm.html",
        reads=(
            PageRead("vm", "vm.show", named(name="vm")),
            PageRead("snapshots", "vm.snapshot.list", named(name="vm"), needed=False),
            PageRead("trail", "audit.list", lambda p: {"vm": p["vm"], "limit": 20}, needed=False),
        ),
    ),
    Page(
        path="/vms/{vm}/file",
        title="Change a VM",
        section="VMs",
        template="vm_file.html",
        reads=(PageRead("file", "vm.file", named(name="vm")),),
        live=False,
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
        path="/vms/{vm}/performance",
        title="Performance",
        section="VMs",
        template="vm_performance.html",
        reads=(PageRead("found", "vm.performance", named(name="vm")),),
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
    list_page(
        *("/guest-profiles", "Guest profiles", "guest-profile.list", _GUEST_PROFILES),
        section="VMs",
        live=False,
    ),
    Page(
        path="/guest-profiles/{profile}",
        title="Guest profile",
        section="VMs",
        template="guest_profile.html",
        reads=(PageRead("profile", "guest-profile.show", named(name="profile")),),
        live=False,
    ),
    list_page("/flavours", "Flavours", "flavour.list", _FLAVOURS, section="VMs"),
)


def _hosts(answers: Answers) -> list[tuple[str, str]]:
    """Hosts that take VMs, after none."""
    found = (answers["hosts"] or {"items": []})["items"]
    return [("", "Choose one"), *((each["name"], each["name"]) for each in found)]


QUESTIONS = (
    Question(
        endpoint="vm.create",
        text=lambda _: "Create a VM",
        button="Create",
        back=at("/vms"),
        preview="vm.plan-new",
        intro="Where it would go is shown first. For more than this, apply a file.",
        choices=(
            Choice("name", "Name", "text"),
            Choice(
                "profiles",
                "GPU parts",
                "words",
                "Profiles between spaces; none: no GPU",
                names_of("capacity", "profile"),
            ),
            Choice("vcpus", "vCPUs", "number", "2 if nothing is said"),
            Choice("memory", "Memory", "text", "4GiB if nothing is said"),
            Choice("image", "Image", "text", "NAME@VERSION", names_of("images")),
            Choice("disk", "Disk", "text", "40GiB, for instance; empty: as large as the image"),
            Choice("network", "Network", "text", "empty: none"),
            Choice("firmware", "Firmware", "select", options=("uefi", "bios")),
            Choice(
                *("os", "Operating system", "text", "empty: not said; it says what machine it is"),
                options=lambda _: [(name, guests.system(name).title) for name in guests.systems()],
            ),
            Choice("display", "With a screen"),
            Choice("console", "With a serial console"),
        ),
        reads=(PageRead("capacity", "capacity.list"), PageRead("images", "image.list")),
    ),
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
            Choice("to", "To the host", "select", options=_hosts),
            Choice("cold", "By stopping it, and starting it there"),
            _WITH_USERS,
        ),
        reads=(_HOSTS,),
    ),
    Question(
        endpoint="vm.rename",
        text=one("Rename"),
        button="Rename",
        back=at("/vms"),
        intro="Its disks, snapshots and GPU parts stay its own. Files must say the new name, too.",
        choices=(
            Choice("new_name", "New name", "text", required=True),
            Choice("restart", "Stop it if it runs, and start it again"),
            _WITH_USERS,
        ),
    ),
    Question(
        endpoint="vm.clone",
        text=one("Clone"),
        button="Clone",
        back=at("/vms"),
        intro="It must be off, and its disks are copied; over a snapshot nothing is copied.",
        choices=(
            Choice("clone", "Name of the new VM", "text", required=True),
            Choice("snapshot", "Over its snapshot", "text", "Empty: copies of its disks."),
        ),
    ),
    Question(
        endpoint="vm.remote-desktop",
        text=one("Make a connect file for"),
        button="Make it",
        back=page_of("vms", "name"),
        intro="To the guest's own remote desktop (RDP), at the address that its agent tells.",
        choices=(Choice("port", "Port", "number", "3389 if nothing is said"),),
    ),
    Question(
        endpoint="flavour.apply",
        text=lambda _: "Set flavours",
        button="Set them",
        back=at("/flavours"),
        preview="document.plan",
        intro="One of a name that there is becomes as this says; VMs and pools that have it change "
        "when their files are applied again.",
        choices=(Choice("text", "Flavours, as YAML", "area"),),
    ),
    Question(
        endpoint="flavour.delete",
        text=one("Delete flavour"),
        button="Delete",
        back=at("/flavours"),
        ends_something=True,
        intro="It is refused while a VM or a pool has it.",
    ),
    Question(
        endpoint="vm.snapshot.create",
        text=one("Take a snapshot of"),
        button="Take it",
        back=page_of("vms", "name"),
        intro="All its disks are kept as they are now. Its memory is not.",
        choices=(
            Choice("snapshot", "Name", "text", "Small letters, digits and -", required=True),
            Choice("freeze", "Have the guest's agent freeze its file systems"),
        ),
    ),
    Question(
        endpoint="vm.snapshot.revert",
        text=lambda asked: f"Bring {asked.get('name', '')} back to {asked.get('snapshot', '')}",
        button="Revert",
        back=page_of("vms", "name"),
        intro="Everything that it wrote since its disks were last kept is lost.",
        choices=(
            Choice("restart", "Stop it if it runs, and start it again"),
            _WITH_USERS,
        ),
        ends_something=True,
    ),
    Question(
        endpoint="vm.snapshot.delete",
        text=lambda asked: (
            f"Delete snapshot {asked.get('snapshot', '')} of {asked.get('name', '')}"
        ),
        button="Delete",
        back=page_of("vms", "name"),
        intro="Its disks, and its other snapshots, stay as they are.",
        ends_something=True,
    ),
    Question(
        endpoint="vm.delete",
        text=several("Delete", "VM"),
        button="Delete",
        back=page_of("vms"),
        preview="vm.preview-delete",
        also=("vm.users",),
        choices=(
            Choice("keep_disks", "Keep the disks"),
            Choice("force", "Even if it runs", hint="Its power is cut."),
        ),
        ends_something=True,
    ),
)
