"""The endpoints of disk images in versions: list, show, retire."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.outcomes import failure_of
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.model.desktop import PoolRecord
from vgpumgr.model.errors import InUse, PartlyDone, UsageError, VgpumgrError
from vgpumgr.model.image import CopyState, ImageRecord
from vgpumgr.model.vm import VmRecord

if TYPE_CHECKING:
    from vgpumgr.engine.images.image_retirement import RetirementReport
    from vgpumgr.model.scoped_reads import ScopedReads


class ImageCopyItem(TypedDict):
    """A copy on a host, and the VMs that use it there."""

    host: str
    pool: str
    state: str
    verified_at: Time | None
    vms: list[str]


class ImageItem(TypedDict):
    """An image, ``NAME@VERSION``. ``state`` is ``retired``; ``importing`` while copies come;
    ``ready``, or ``nowhere`` without a copy.
    """

    name: str
    image: str
    version: str
    state: str
    format: str
    virtual_bytes: int
    file_bytes: int
    sha256: str
    source: str
    created_at: Time
    retired_at: Time | None
    volume: str
    copies: list[ImageCopyItem]
    vms: list[str]
    pools: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneImage:
    """``NAME@VERSION``, or ``NAME`` for its newest version."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRetirement:
    """``NAME@VERSION``; ``delete_copies``: those copies are deleted that no VM uses."""

    name: Name
    delete_copies: bool = False


def list_images(context: CallContext, _: Nothing) -> Result[ItemList[ImageItem]]:
    """Every version of each."""
    vms, pools = context.reads.vms(), context.reads.pools()
    items = [image_item(each, vms, pools) for each in context.reads.images()]
    return Result(answer={"items": items})


def show_image(context: CallContext, asked: OneImage) -> Result[ImageItem]:
    """One image."""
    from vgpumgr.engine.images.image_import import find

    found = find(context.reads.images(), asked.name)
    return Result(answer=image_of(context.reads, found))


def image_of(reads: ScopedReads, image: ImageRecord) -> ImageItem:
    """The JSON of one image, with the VMs and pools that use it."""
    return image_item(image, reads.vms(), reads.pools())


def image_item(
    image: ImageRecord, vms: Collection[VmRecord], pools: Collection[PoolRecord]
) -> ImageItem:
    """The same of many images."""
    from vgpumgr.engine.images.image_copies import pools_of, users

    return {
        "name": image.reference,
        "image": image.name,
        "version": image.version,
        "state": _state(image),
        "format": image.format,
        "virtual_bytes": image.virtual_bytes,
        "file_bytes": image.file_bytes,
        "sha256": image.sha256,
        "source": image.source,
        "created_at": image.created_at,
        "retired_at": image.retired_at,
        "volume": image.volume,
        "copies": [
            {
                "host": copy.host,
                "pool": copy.pool,
                "state": str(copy.state),
                "verified_at": copy.verified_at or None,
                "vms": list(users(image, vms, copy)),
            }
            for copy in image.copies
        ],
        "vms": list(users(image, vms)),
        "pools": list(pools_of(image, pools)),
    }


def _state(image: ImageRecord) -> str:
    if image.retired_at is not None:
        return "retired"
    states = {copy.state for copy in image.copies}
    if CopyState.IMPORTING in states:
        return "importing"
    return "ready" if CopyState.THERE in states else "nowhere"


def retire_image(context: CallContext, asked: ImageRetirement) -> Result[ImageItem]:
    """Use it for no new VM; VMs with a disk over it keep running."""
    if "@" not in asked.name:
        again = f"vgpumgr image retire {asked.name}@VERSION"
        raise UsageError(f"which version of {asked.name}?", next=again)
    with context.changing() as engine:
        done = engine.retire_image(asked.name, delete_copies=asked.delete_copies)
    error = failure_of(done.outcome) or _kept_error(done)
    return Result(answer=image_of(context.reads, done.image), error=error)


def _kept_error(done: RetirementReport) -> VgpumgrError | None:
    """InUse where VMs keep all copies, PartlyDone where they keep some."""
    if not done.kept:
        return None
    host, vms = next(iter(done.kept.items()))
    kind = PartlyDone if done.outcome.done else InUse
    return kind(
        f"{done.image.reference} stays on {', '.join(done.kept)}: it is in use",
        why=f"on {host} by {', '.join(vms[:5])}{' and others' if len(vms) > 5 else ''}",
        next="the same command again when these VMs are gone",
    )


LIST_IMAGES = Endpoint(
    name="image.list",
    method=HttpMethod.GET,
    path="/images",
    permission=Permission.IMAGE_READ,
    summary="Disk images, every version of each.",
    asks=Nothing,
    answers=ItemList[ImageItem],
    kind="ImageList",
    work=list_images,
    scoped=True,
)
SHOW_IMAGE = Endpoint(
    name="image.show",
    method=HttpMethod.GET,
    path="/images/{name}",
    permission=Permission.IMAGE_READ,
    summary="One disk image.",
    asks=OneImage,
    answers=ImageItem,
    kind="Image",
    work=show_image,
    scoped=True,
)
RETIRE_IMAGE = Endpoint(
    name="image.retire",
    method=HttpMethod.POST,
    path="/images/{name}:retire",
    permission=Permission.IMAGE_WRITE,
    summary="Use a version of an image for no new VM.",
    asks=ImageRetirement,
    answers=ImageItem,
    kind="Image",
    work=retire_image,
    runs=Runs.OPERATION,
)

ENDPOINTS = (LIST_IMAGES, SHOW_IMAGE, RETIRE_IMAGE)
