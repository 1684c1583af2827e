"""`image import`: an image's file looked at, and copied to hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from vgpumgr.engine.images.image_copies import (
    ImageFileFacts,
    ImageImport,
    chosen_version,
    reservation,
    targets,
)
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.steps.image_file import Digest, opened
from vgpumgr.engine.steps.step import TOLD_EVERY
from vgpumgr.image_inspection import Inspected, inspect
from vgpumgr.model.errors import Conflict, Interrupted, NotFound
from vgpumgr.model.formats import size_words
from vgpumgr.model.image import ImageRecord, split_reference
from vgpumgr.model.operation import OF_IMAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """``left_out`` are the hosts that got no copy, each with the reason.

    ``known``: that image was there before. ``alike`` are other images of the same content.
    """

    image: ImageRecord
    outcome: Outcome = field(default_factory=Outcome)
    left_out: dict[str, str] = field(default_factory=dict)
    known: bool = False
    alike: tuple[str, ...] = ()


class FileNeeded(Conflict):
    """An image is to be copied to hosts, and its file is not on this machine."""

    code = "conflict.file-needed"


def import_(
    context: EngineContext,
    request: ImageImport,
    require: Callable[[ImageFileFacts], None] = lambda _: None,
) -> ImportReport:
    """Look at the file, then copy it to hosts; what was cut is resumed, what is there stays.

    BadImage for a file that is no image of the declared format; Conflict where the version is
    known as another file, or a named host cannot take it. ``require`` may refuse what was found.
    """
    _require_known(context, request.hosts)
    found = examined(request, context.stop, context.tell)
    require(found)
    return _imported(context, request, found)


def import_known(context: EngineContext, request: ImageImport, sha256: str) -> ImportReport:
    """The same without the file, which has that digest; FileNeeded where a copy is to be made."""
    _require_known(context, request.hosts)
    for each in context.ledger.images():
        same = (each.name, each.format, each.sha256) == (request.name, request.format, sha256)
        if same and each.retired_at is None:
            inspected = Inspected(
                format=each.format, virtual_bytes=each.virtual_bytes, file_bytes=each.file_bytes
            )
            return _imported(context, request, ImageFileFacts(inspected=inspected, sha256=sha256))
    raise _file_needed(request, "no image of that name has its content")


def _require_known(context: EngineContext, hosts: Iterable[str]) -> None:
    for name in hosts:
        context.ledger.host(name)


def _file_needed(request: ImageImport, why: str) -> FileNeeded:
    return FileNeeded(
        f"the file of {request.name} is needed", why=why, next="upload it: POST /v1/uploads"
    )


def _imported(context: EngineContext, request: ImageImport, found: ImageFileFacts) -> ImportReport:
    def attempt() -> ImportReport:
        context.refresh_all(request.hosts)
        view, opening = context.view(), context.opening()
        image = chosen_version(request, found, view.images, opening)
        if finish_copies(context, image):
            view = context.view()
            image = chosen_version(request, found, view.images, opening)
        hosts, left_out = targets(context, view, request, image)
        is_new = all(each.id != image.id for each in view.images)
        if hosts and not request.path:
            raise _file_needed(request, f"{image.reference} is not on {', '.join(hosts)}")
        start = reservation(image, hosts, request, opening, is_new=is_new)
        outcome = operation_lifecycle.begin(context, start)
        return ImportReport(
            image=image_by_id(context, image.id),
            outcome=outcome,
            left_out=left_out,
            known=not is_new,
            alike=_alike(image, view.images),
        )

    return until_current(attempt)


def _alike(image: ImageRecord, images: Iterable[ImageRecord]) -> tuple[str, ...]:
    """Other images in use with the same bytes."""
    content = image.sha256, image.format
    return tuple(
        each.reference
        for each in images
        if each.id != image.id and each.retired_at is None and (each.sha256, each.format) == content
    )


def find(images: tuple[ImageRecord, ...], reference: str) -> ImageRecord:
    """The image of ``cad@12``, or the newest version of ``cad`` that is not retired; NotFound."""
    if split_reference(reference) is None:
        named = [each for each in images if each.name == reference and each.retired_at is None]
    else:
        named = [each for each in images if each.reference == reference]
    if named:
        return named[-1]
    near = get_close_matches(reference, [each.reference for each in images], n=1)
    why = f"did you mean {near[0]}?" if near else ""
    raise NotFound(f"there is no image {reference}", why=why, next="vgpumgr image list")


def image_by_id(context: EngineContext, image: str) -> ImageRecord:
    """The image as it is now, by our id."""
    return next(each for each in context.ledger.images() if each.id == image)


def examined(
    request: ImageImport, stop: threading.Event, tell: Callable[[str], None]
) -> ImageFileFacts:
    """The file looked at and digested: it is read here, to be known, and again when it is sent."""
    digest, told = Digest(), 0
    name = request.called or request.path
    with opened(request.path) as file:
        inspected = inspect(file, request.format, name=name, most_bytes=request.most_bytes)
        for piece in file.pieces():
            if stop.is_set():
                raise Interrupted("interrupted", why="nothing was changed yet")
            digest.update(piece)
            if digest.bytes - told >= max(file.size * TOLD_EVERY, 1 << 30):
                told = digest.bytes
                tell(f"{size_words(told)} of {size_words(file.size)} are read")
    return ImageFileFacts(inspected=inspected, sha256=digest.sha256)


def finish_copies(context: EngineContext, image: ImageRecord) -> bool:
    """Go on with what was cut of this image; was there any?"""
    finished = False
    label = {f"image {image.reference}"}
    for operation, waits in operation_lifecycle.unfinished_operations(
        context.ledger, label, OF_IMAGES
    ):
        if waits:
            operation_lifecycle.resume(context, operation.id)
            finished = True
    return finished
