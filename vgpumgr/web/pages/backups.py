"""The pages of VMs' backups and of the targets that they go to."""

from __future__ import annotations

from vgpumgr.web.listing import Column, Listing, NewThing, RowAction, list_page
from vgpumgr.web.page import PageRead
from vgpumgr.web.questions import Choice, Question, at, names_of, one

_ONE = {"backup": "id"}
_THERE = ("state", ("there",))
_BACKUPS = Listing(
    (
        Column("Backup", "name"),
        Column("VM", "vm"),
        Column("Tenant", "tenant"),
        Column("Target", "target"),
        Column("Made", "created_at", "when"),
        Column("Guest", "moment"),
        Column("State", "state", "state"),
        Column("Verified", "verified_at", "when"),
        Column("Fault", "fault"),
    ),
    (
        RowAction("backup.restore", "Restore", _ONE, only=_THERE),
        RowAction("backup.verify", "Verify", _ONE, only=_THERE),
        RowAction("backup.delete", "Delete", _ONE, only=_THERE),
    ),
    (NewThing("backup.create", "Back up a VM"),),
    hint="VM, target, tenant",
    intro="All disks of a VM at one moment, on other storage. Backups of deleted VMs stay here.",
)
_TARGETS = Listing(
    (
        Column("Target", "name"),
        Column("Storage pool", "pool"),
        Column("VMs", "vms", "list"),
        Column("Seconds between", "every_s", "number"),
        Column("Kept", "keep", "pairs"),
        Column("Backups", "backups", "number"),
        Column("Set", "set_at", "when"),
        Column("By", "set_by"),
    ),
    (
        RowAction("backup.target.search", "Search it", {"name": "name"}),
        RowAction("backup.target.delete", "Forget", {"name": "name"}),
    ),
    (NewThing("backup.target.create", "New target"),),
    hint="name, pool, VM",
    intro="A storage pool that hosts share; VMs by patterns of their names, and how often.",
)
_VMS = PageRead("vms", "vm.list", needed=False)
_BACKUP_TARGETS = PageRead("targets", "backup.target.list", needed=False)
_BACK, _TO_TARGETS = at("/backups"), at("/backup-targets")

PAGES = (
    list_page("/backups", "Backups", "backup.list", _BACKUPS, template="backups.html"),
    list_page(
        "/backup-targets", "Backup targets", "backup.target.list", _TARGETS, section="Backups"
    ),
)

QUESTIONS = (
    Question(
        endpoint="backup.create",
        text=one("Back up"),
        button="Back up",
        back=_BACK,
        choices=(
            Choice("name", "VM", "text", options=names_of("vms"), required=True),
            Choice(
                *("target", "Target", "text", "Empty: the only one."),
                options=names_of("targets"),
            ),
            Choice("freeze", "Have the guest's agent freeze its file systems"),
        ),
        reads=(_VMS, _BACKUP_TARGETS),
        intro="A guest that runs on is copied as after a power cut, unless it is frozen.",
    ),
    Question(
        endpoint="backup.restore",
        text=one("Restore backup", "backup"),
        button="Restore",
        back=at("/vms"),
        choices=(
            Choice("name", "Name of the VM", "text", "Empty: as it was. It must be free."),
            Choice("profiles", "Other GPU parts", "words", "A40-8Q"),
            Choice("no_gpus", "Without GPU parts"),
            Choice("pool", "Storage pool of its disks", "text", "Empty: as they were."),
        ),
        intro="A VM is made of it and started; nothing is overwritten.",
    ),
    Question(
        endpoint="backup.verify",
        text=one("Verify backup", "backup"),
        button="Verify",
        back=_BACK,
        intro="All its bytes are read and compared with what its manifest says.",
    ),
    Question(
        endpoint="backup.delete",
        text=one("Delete backup", "backup"),
        button="Delete",
        back=_BACK,
        ends_something=True,
    ),
    Question(
        endpoint="backup.target.create",
        text=one("Set the backup target"),
        button="Set",
        back=_TO_TARGETS,
        choices=(
            Choice("name", "Name", "text", "small letters, digits and -", required=True),
            Choice("pool", "Storage pool", "text", required=True),
            Choice("vms", "VMs on schedule", "words", "web-* db"),
            Choice("every_s", "Seconds between two backups", "number"),
            Choice("last", "Last ones that are kept", "number"),
            Choice("daily", "Daily ones that are kept", "number"),
            Choice("weekly", "Weekly ones that are kept", "number"),
            Choice("freeze", "Have guests' agents freeze their file systems"),
            Choice("replace", "In the place of the target of that name"),
        ),
        intro="It is a storage pool of that name on each host whose VMs go there.",
    ),
    Question(
        endpoint="backup.target.search",
        text=one("Search for backups on"),
        button="Search",
        back=_BACK,
        intro="Backups that lie there and the ledger does not know are listed from then on.",
    ),
    Question(
        endpoint="backup.target.delete",
        text=one("Forget the backup target"),
        button="Forget",
        back=_TO_TARGETS,
        ends_something=True,
        intro="It is refused while there are backups on it.",
    ),
)
