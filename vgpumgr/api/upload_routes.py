"""The bytes of uploads: they come in pieces, and go to the disk as they come.

A piece is taken off the connection by the event loop and written by a thread, which is held for no
sender that is slow. No more than ``PIECE_BYTES`` of a request are in memory.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyio import CancelScope, to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.requests import ClientDisconnect

from vgpumgr.access.permission import Permission
from vgpumgr.api.incoming_call import PREFIX
from vgpumgr.api.parameters import answer_type
from vgpumgr.api.problems import failures, problem
from vgpumgr.api.trail_follower import HEARTBEAT_S
from vgpumgr.endpoints.answers import to_json
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Result
from vgpumgr.endpoints.uploads import SHOW_UPLOAD, upload_item
from vgpumgr.engine.images.image_upload import ImageUpload, UploadTooLong
from vgpumgr.model.errors import OutcomeUnknown, UsageError

if TYPE_CHECKING:
    from vgpumgr.api.service import Service
    from vgpumgr.engine.images.upload_folder import UploadWriter
    from vgpumgr.identity.established import Established

PIECE_BYTES = 1 << 20
MEDIA_TYPE = "application/octet-stream"
OFFSET, LENGTH = "Upload-Offset", "Upload-Length"
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True)
class UploadRoutes:
    """Append to an upload, and say in headers how far it has come."""

    service: Service

    async def write(self, id: str, request: Request) -> Response:
        """Append the body to an upload, from ``Upload-Offset`` on."""
        with CancelScope(shield=True):  # what is held is let go below
            writer = await to_thread.run_sync(self._writer, request, id)
        cut = False
        try:
            await self._take(request, writer)
        except ClientDisconnect:
            cut = True
        finally:
            with CancelScope(shield=True):  # what came is kept also where the server ends
                kept = await to_thread.run_sync(writer.close, limiter=self.service.for_uploads)
        if cut:
            return problem(OutcomeUnknown("the connection ended", why="what came is kept"))
        return self._answer(kept)

    def offset(self, id: str, request: Request) -> Response:
        """How far it has come, in headers alone."""
        found = self.service.app.uploads.upload(self._user(request, changes=False), id)
        return Response(headers=_headers(found))

    def _writer(self, request: Request, id_: str) -> UploadWriter:
        """Continues the upload, for who may; what is refused is refused before it is read."""
        user = self._user(request, changes=True)
        uploads = self.service.app.uploads
        uploads.upload(user, id_)  # what is not there is told first
        writer = uploads.writer(user, id_, _offset(request))
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:_MOST_DIGITS]) > writer.left:
            writer.close()
            raise UploadTooLong(
                "the piece is too long",
                why=f"{writer.left} bytes of the upload are still to come",
                next="send no more than these",
            )
        return writer

    async def _take(self, request: Request, writer: UploadWriter) -> None:
        """What comes, for as long as who sends it may; looked at every 15 s."""
        looked_at = time.monotonic()
        async for piece in _pieces(request):
            if time.monotonic() - looked_at >= HEARTBEAT_S:
                looked_at = time.monotonic()
                await to_thread.run_sync(self._require_still, request)
            await to_thread.run_sync(writer.write, piece, limiter=self.service.for_uploads)

    def _require_still(self, request: Request) -> None:
        """LoginRefused or AccessRefused where the login or the role has been taken since."""
        self.service.known(request).grants.require(Permission.IMAGE_WRITE)

    def _user(self, request: Request, *, changes: bool) -> str:
        who: Established = self.service.admitted(request, Permission.IMAGE_WRITE, changes=changes)
        return who.actor.user

    def _answer(self, upload: ImageUpload) -> Response:
        item = upload_item(CallContext(app=self.service.app), upload)
        return JSONResponse(to_json(SHOW_UPLOAD, Result(answer=item)), headers=_headers(upload))


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    """The body in pieces that are worth a thread; where it is cut, what came of it."""
    held = bytearray()
    try:
        async for part in request.stream():
            held += part
            if len(held) >= PIECE_BYTES:
                yield bytes(held)
                held.clear()
    except ClientDisconnect:
        if held:
            yield bytes(held)
        raise
    if held:
        yield bytes(held)


def _offset(request: Request) -> int:
    """Where the piece begins; UsageError where it does not say so."""
    told = request.headers.get(OFFSET, "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not told.isascii() or not told.isdecimal() or len(told) > _MOST_DIGITS:
        raise UsageError(
            f"the header {OFFSET} does not say where the piece begins",
            next=f"{OFFSET}: 0, or where HEAD says that the upload ends",
        )
    if kind != MEDIA_TYPE:
        raise UsageError(
            f"a piece of a file is no {kind[:80] or 'body without a type'}",
            next=f"Content-Type: {MEDIA_TYPE}",
        )
    return int(told)


def _headers(upload: ImageUpload) -> dict[str, str]:
    return {OFFSET: str(upload.offset), LENGTH: str(upload.bytes)}


def add_upload_routes(api: FastAPI, service: Service) -> None:
    """Add both."""
    routes = UploadRoutes(service)
    piece: dict[str, Any] = {
        "requestBody": {
            "required": True,
            "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        },
        "parameters": [
            {
                "name": OFFSET,
                "in": "header",
                "required": True,
                "schema": {"type": "integer", "minimum": 0},
                "description": "Where the piece begins: where the upload ends.",
            }
        ],
    }
    told = {name: {"schema": {"type": "integer"}} for name in (OFFSET, LENGTH)}
    for method, name, handler, summary, answered, extra in (
        (
            "PATCH",
            "upload.write",
            routes.write,
            "Append to an upload.",
            {"model": answer_type(SHOW_UPLOAD), "description": "How far it has come."},
            piece,
        ),
        (
            "HEAD",
            "upload.offset",
            routes.offset,
            "How far an upload has come, in headers alone.",
            {"description": "How far it has come."},
            {},
        ),
    ):
        api.add_api_route(
            f"{PREFIX}/uploads/{{id:name}}",
            handler,
            methods=[method],
            operation_id=name,
            summary=summary,
            tags=["upload"],
            response_model=None,
            responses={200: {**answered, "headers": told}, **failures()},
            openapi_extra={"x-permission": Permission.IMAGE_WRITE, **extra},
        )
