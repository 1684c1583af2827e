"""The endpoints of uploads: begun, listed, shown, discarded. Their bytes come by a route of the
API's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.model.actor import current_actor
from vgpumgr.model.api_request import working_for
from vgpumgr.model.formats import size_words
from vgpumgr.model.history import UploadEvent

if TYPE_CHECKING:
    from vgpumgr.engine.images.image_upload import ImageUpload

FileName = Annotated[
    str, ParameterLimits(min_length=1, max_length=255, pattern=r"^[^/\x00-\x1f\x7f-\x9f]+$")
]
Sha256 = Annotated[str, ParameterLimits(min_length=64, max_length=64, pattern="^[0-9a-f]{64}$")]
Bytes = Annotated[int, ParameterLimits(ge=1, le=1 << 62)]


class UploadItem(TypedDict):
    """A file that is sent in pieces: ``offset`` is how many of its ``bytes`` are durably at the
    server, where the next piece begins. Without another piece it is kept until ``expires_at``.
    """

    name: str
    file: str
    bytes: int
    offset: int
    sha256: str
    begun_at: Time
    expires_at: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToUpload:
    """``file`` is its name for people, and names nothing at the server."""

    file: FileName
    bytes: Bytes
    sha256: Sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class OneUpload:
    """One upload by its id."""

    id: Name


def uploader(context: CallContext) -> str:
    """Whose uploads these are."""
    actor = current_actor()
    return actor.user if actor is not None else context.who.actor.user


def upload_item(context: CallContext, upload: ImageUpload) -> UploadItem:
    """The JSON of an upload."""
    return {
        "name": upload.id,
        "file": upload.name,
        "bytes": upload.bytes,
        "offset": upload.offset,
        "sha256": upload.sha256,
        "begun_at": upload.begun_at,
        "expires_at": upload.seen_at + context.app.uploads.limits.keep_s,
    }


def begin_upload(context: CallContext, asked: FileToUpload) -> Result[UploadItem]:
    """The same file of the same user goes on where it was."""
    from vgpumgr.app.purge_schedule import purge_uploads

    folder = context.app.uploads
    with working_for(None):
        purge_uploads(context.app)
    found, new = folder.begin(uploader(context), asked.file, asked.bytes, asked.sha256)
    if new:
        context.app.writable_ledger.record_upload(UploadEvent.BEGUN, upload_text(found))
    return Result(answer=upload_item(context, found))


def list_uploads(context: CallContext, _: Nothing) -> Result[ItemList[UploadItem]]:
    """Those of the caller."""
    found = context.app.uploads.uploads(uploader(context))
    return Result(answer={"items": [upload_item(context, each) for each in found]})


def show_upload(context: CallContext, asked: OneUpload) -> Result[UploadItem]:
    """One of the caller's."""
    found = context.app.uploads.upload(uploader(context), asked.id)
    return Result(answer=upload_item(context, found))


def discard_upload(context: CallContext, asked: OneUpload) -> Result[UploadItem]:
    """What is here of it is deleted."""
    found = context.app.uploads.discard(uploader(context), asked.id)
    context.app.writable_ledger.record_upload(UploadEvent.DISCARDED, upload_text(found))
    return Result(answer=upload_item(context, found))


def upload_text(upload: ImageUpload) -> str:
    """An upload in the trail."""
    return f"{upload.name}, {size_words(upload.bytes)}, sha256:{upload.sha256}"


BEGIN_UPLOAD = Endpoint(
    name="upload.begin",
    method=HttpMethod.POST,
    path="/uploads",
    permission=Permission.IMAGE_WRITE,
    summary="Begin or continue to send an image's file.",
    asks=FileToUpload,
    answers=UploadItem,
    kind="Upload",
    work=begin_upload,
)
LIST_UPLOADS = Endpoint(
    name="upload.list",
    method=HttpMethod.GET,
    path="/uploads",
    permission=Permission.IMAGE_WRITE,
    summary="The caller's uploads.",
    asks=Nothing,
    answers=ItemList[UploadItem],
    kind="UploadList",
    work=list_uploads,
    personal=True,
)
SHOW_UPLOAD = Endpoint(
    name="upload.show",
    method=HttpMethod.GET,
    path="/uploads/{id}",
    permission=Permission.IMAGE_WRITE,
    summary="How far an upload has come.",
    asks=OneUpload,
    answers=UploadItem,
    kind="Upload",
    work=show_upload,
    personal=True,
)
DISCARD_UPLOAD = Endpoint(
    name="upload.discard",
    method=HttpMethod.DELETE,
    path="/uploads/{id}",
    permission=Permission.IMAGE_WRITE,
    summary="Discard an upload with what is there of it.",
    asks=OneUpload,
    answers=UploadItem,
    kind="Upload",
    work=discard_upload,
)

ENDPOINTS = (BEGIN_UPLOAD, LIST_UPLOADS, SHOW_UPLOAD, DISCARD_UPLOAD)
