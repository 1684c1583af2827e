"""`takeover apply`: VM by VM, disks imported to the host that has room, the VM made of them.

Every part is an operation of its own that resumes when it is asked for again: the import of an
image, the creation of a VM, the retirement of the image that its disk was copied from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from vgpumgr.cli.image_files import import_image
from vgpumgr.cli.output import say
from vgpumgr.cli.running_command import carry_out
from vgpumgr.cli.takeover_files import FetchedDisk, with_disks
from vgpumgr.endpoints.image_imports import ImageToImport
from vgpumgr.endpoints.images import RETIRE_IMAGE, ImageRetirement
from vgpumgr.endpoints.takeovers import TakeoverItem
from vgpumgr.endpoints.vm_documents import APPLY_VMS, PLAN_VMS, ApplyVms, PlanVms
from vgpumgr.model.errors import Interrupted, NoPlacement, VgpumgrError
from vgpumgr.model.formats import counted, exact_size

if TYPE_CHECKING:
    from vgpumgr.cli.command_context import Context

AGAIN = "the same command again: it goes on"
SOURCE = "the plan of the takeover"
_MIB = 1 << 20
_OF_IMAGES = frozenset({"mode", "image", "image_format"})


class TakenItem(TypedDict):
    """What became of one VM: ``state`` is ``taken over``, ``there`` or ``failed``."""

    name: str
    state: str
    host: str
    disks: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyVm:
    """A VM whose disks are here."""

    item: TakeoverItem
    disks: Sequence[FetchedDisk]

    @property
    def document(self) -> dict[str, Any]:
        """The VM's document, with the formats of its files."""
        assert self.item["vm"] is not None, "one without a VM is not ready"
        return with_disks(self.item["vm"], self.disks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverPlaces:
    """The host of each VM that finds room, and why each other one does not."""

    hosts: Mapping[str, str]
    unplaced: Mapping[str, str]

    def require_room(self) -> None:
        """NoPlacement where a VM finds none."""
        if self.unplaced:
            names = list(self.unplaced)
            raise NoPlacement(
                f"{counted(len(names), 'VM')} would find no room: {', '.join(names[:5])}",
                why=self.unplaced[names[0]],
                next="vgpumgr capacity; or --partial for the others",
            )


def places(context: Context, ready: Sequence[ReadyVm]) -> TakeoverPlaces:
    """Where each VM would go. Nothing is changed: it is asked with fresh disks of the same sizes,
    as the images are not there yet.
    """
    if not ready:
        return TakeoverPlaces(hosts={}, unplaced={})
    asked = PlanVms(text=_text([_with_fresh_disks(each) for each in ready]), source=SOURCE)
    plan = context.read(PLAN_VMS, asked).answer
    return TakeoverPlaces(
        hosts={each["vm"]: each["host"] for each in plan["actions"] if each["host"]},
        unplaced={
            each["vm"]: each["reasons"][0]["text"] if each["reasons"] else ""
            for each in plan["unplaced"]
        },
    )


def largest_first(ready: Sequence[ReadyVm]) -> list[ReadyVm]:
    """Whole GPUs, then by frame buffer, else as given: what comes late finds room more easily."""
    from vgpumgr import catalog
    from vgpumgr.model.gpu import PASSTHROUGH_PROFILE

    sizes = {each.profile: each.fb_mib for board in catalog.boards() for each in board.types}

    def size(each: ReadyVm) -> int:
        gpus: Sequence[Mapping[str, Any]] = each.document.get("gpus", ())
        parts = [(str(gpu["profile"]), int(gpu.get("count", 1))) for gpu in gpus]
        whole = sum(count for profile, count in parts if profile == PASSTHROUGH_PROFILE)
        return (whole << 40) + sum(sizes.get(profile, 0) * count for profile, count in parts)

    return sorted(ready, key=size, reverse=True)


def _with_fresh_disks(ready: ReadyVm) -> dict[str, Any]:
    document = ready.document
    fresh = [
        {**_fresh(disk), "size": exact_size(-(-file.virtual_bytes // _MIB) * _MIB)}
        for disk, file in zip(document.get("disks", ()), ready.disks, strict=True)
    ]
    return {**document, "disks": fresh} if fresh else document


def _fresh(disk: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in disk.items() if key not in {"mode", "image", "image_format"}
    }


def _text(documents: Sequence[Mapping[str, Any]]) -> str:
    import yaml

    return yaml.safe_dump_all(documents, sort_keys=False)


def take_over(
    context: Context, ready: Sequence[ReadyVm], hosts: Mapping[str, str]
) -> list[TakenItem]:
    """One VM after the other: what fails is said, and the next one goes on. Interrupted ends it."""
    found = []
    for number, each in enumerate(ready, start=1):
        name = each.item["name"]
        host = hosts[name]
        say(f"{number} of {len(ready)}: {name} to {host}")
        item: TakenItem = {
            "name": name, "state": "taken over", "host": host, "disks": len(each.disks), "error": ""
        }  # fmt: skip
        try:
            _take_over(context, each, host)
        except Interrupted as error:
            error.next = AGAIN
            raise
        except VgpumgrError as error:
            item |= {"state": "failed", "error": error.message}
            say(f"{name}: {error}")
        found.append(item)
    return found


def _take_over(context: Context, ready: ReadyVm, host: str) -> None:
    images = [_imported(context, disk, host, ready) for disk in ready.disks]
    document = ready.document
    if images:
        pairs = zip(document["disks"], images, strict=True)
        document["disks"] = [{**disk, "image": image} for disk, image in pairs]
    _make(context, document)
    retire(context, images)


def finish_cut(context: Context, item: TakeoverItem) -> TakenItem:
    """Finish what a cut left of a VM that the fleet has: its creation, images of its disks."""
    if item["vm"] is not None:
        _make(context, item["vm"])
    retire(context, item["leftover"])
    state = "there" if item["vm"] is None else "taken over"
    disks = len(item["disks"]) if item["vm"] is not None else 0
    return {"name": item["name"], "state": state, "host": "", "disks": disks, "error": ""}


def _make(context: Context, document: Mapping[str, Any]) -> None:
    done = carry_out(context, APPLY_VMS, ApplyVms(text=_text([document]), source=SOURCE))
    if done.error is not None:
        raise done.error


def retire(context: Context, images: Sequence[str]) -> None:
    """Delete images whose disks are the VM's now; one that stays is said, and is no failure."""
    for image in images:
        asked = ImageRetirement(name=image, delete_copies=True)
        retired = carry_out(context, RETIRE_IMAGE, asked)
        if retired.error is not None:
            say(f"{image} is not deleted yet: {retired.error}")


def _imported(context: Context, disk: FetchedDisk, host: str, ready: ReadyVm) -> str:
    """The image of a disk's file, on that host alone; it is known by its digest when it comes
    again.
    """
    pools = [each.get("pool", "default") for each in ready.document["disks"]]
    asked = ImageToImport(
        name=disk.disk["image"],
        format="raw" if disk.format == "raw" else "qcow2",
        hosts=(host,),
        pool=pools[0],
    )
    done = import_image(context, disk.path, asked)
    if done.error is not None:
        raise done.error
    return done.answer["name"]
