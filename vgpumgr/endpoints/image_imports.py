"""The endpoint `image import`: an upload becomes a version of an image, with copies on hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.images import ImageItem, image_of
from vgpumgr.endpoints.outcomes import failure_of
from vgpumgr.endpoints.shapes import Name
from vgpumgr.endpoints.uploads import uploader
from vgpumgr.model.errors import PartlyDone, VgpumgrError
from vgpumgr.model.image import VERSION
from vgpumgr.model.vm import NAME

if TYPE_CHECKING:
    from vgpumgr.engine.images.image_copies import ImageFileFacts, ImageImport
    from vgpumgr.engine.images.image_import import ImportReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageToImport:
    """``upload`` is the id of a whole upload. Empty: the file's ``sha256`` is known already, and
    its copies are where they are wanted; else it is refused as ``conflict.file-needed``.
    ``version`` empty: the version with these bytes, or the next number; ``hosts`` empty: every host
    that can have it. ``format`` is the file's: it is never guessed.
    """

    name: Annotated[str, ParameterLimits(min_length=1, max_length=63, pattern=f"^{NAME}$")]
    upload: Annotated[str, ParameterLimits(max_length=255)] = ""
    sha256: Annotated[str, ParameterLimits(pattern="^([0-9a-f]{64})?$")] = ""
    version: Annotated[str, ParameterLimits(max_length=63, pattern=f"^({VERSION})?$")] = ""
    format: Literal["qcow2", "raw", "iso"] = "qcow2"
    hosts: tuple[Name, ...] = ()
    pool: Name = "default"


def import_image(context: CallContext, asked: ImageToImport) -> Result[ImageItem]:
    """Import an upload, which is gone once every copy is there."""
    from vgpumgr.engine.images.image_upload import DigestDiffers, require_digest

    if not asked.upload:
        return _import_known(context, asked)
    folder = context.app.uploads
    with folder.held(uploader(context), asked.upload) as (upload, path):

        def require(found: ImageFileFacts) -> None:
            require_digest(upload, found.sha256)

        try:
            done = import_file(context, asked, str(path), called=upload.name, require=require)
        except DigestDiffers:
            folder.remove(upload.id)
            raise
        if done.error is None:
            folder.remove(upload.id)
    return done


def _import_known(context: CallContext, asked: ImageToImport) -> Result[ImageItem]:
    context.app.require_hosts()
    with context.changing() as engine:
        return _result(context, engine.import_known_image(_request(context, asked), asked.sha256))


def import_file(
    context: CallContext,
    asked: ImageToImport,
    path: str,
    *,
    called: str = "",
    require: Callable[[ImageFileFacts], None] = lambda _: None,
) -> Result[ImageItem]:
    """Import a file of this machine; ``called`` is its name for people where that is another."""
    context.app.require_hosts()
    with context.changing() as engine:
        done = engine.import_image(_request(context, asked, path, called), require)
    return _result(context, done)


def _request(
    context: CallContext, asked: ImageToImport, path: str = "", called: str = ""
) -> ImageImport:
    from vgpumgr.engine.images.image_copies import ImageImport

    return ImageImport(
        path=path,
        called=called,
        name=asked.name,
        version=asked.version,
        format=asked.format,
        hosts=tuple(dict.fromkeys(asked.hosts)),
        pool=asked.pool,
        most_bytes=context.app.config.image_max,
    )


def _result(context: CallContext, done: ImportReport) -> Result[ImageItem]:
    return Result(
        answer=image_of(context.reads, done.image),
        notes=_notes(done),
        error=failure_of(done.outcome) or _left_out_error(done),
    )


def _notes(done: ImportReport) -> tuple[str, ...]:
    """Where it is not; and that the same content is no new version."""
    name = done.image.reference
    told = [f"not on {host}: {why}" for host, why in done.left_out.items()]
    if done.known:
        copied = ", ".join(sorted(each.host for each in done.outcome.vms))
        then = f"copied to {copied} now" if copied else "nothing was copied"
        told.append(f"this file is {name} already: the same content; {then}")
    elif done.alike:
        told.append(f"{name} has the same content as {', '.join(done.alike)}")
    return tuple(told)


def _left_out_error(done: ImportReport) -> VgpumgrError | None:
    if not done.left_out:
        return None
    return PartlyDone(
        f"{done.image.reference} is not on {', '.join(done.left_out)}",
        why=next(iter(done.left_out.values())),
        next="the same command again, or --host for where it should be",
    )


IMPORT_IMAGE = Endpoint(
    name="image.import",
    method=HttpMethod.POST,
    path="/images:import",
    permission=Permission.IMAGE_WRITE,
    summary="Make an upload a version of an image, and copy it to hosts.",
    asks=ImageToImport,
    answers=ImageItem,
    kind="Image",
    work=import_image,
    runs=Runs.OPERATION,
    size=lambda asked: len(asked.hosts),
)

ENDPOINTS = (IMPORT_IMAGE,)
