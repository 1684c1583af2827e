"""An image's file sent to a server in parts: what came before a cut is not sent again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from vgpumgr.client.api_client import AWAY_S, RETRY_S, ApiClient
from vgpumgr.endpoints.uploads import (
    BEGIN_UPLOAD,
    SHOW_UPLOAD,
    FileToUpload,
    OneUpload,
    UploadItem,
)
from vgpumgr.engine.steps.image_file import PIECE_BYTES, ImageFile
from vgpumgr.model.errors import BadImage, VgpumgrError
from vgpumgr.model.formats import size_words

PART_BYTES = 64 << 20
"""Of one request: the server makes each durable, and asks again who sends it."""
TOLD_SHARE = 0.05
_PASSES = frozenset(
    {
        *("host.unreachable", "host.outcome-unknown", "deadline", "interrupted"),
        *("conflict.offset", "conflict.in-use", "ledger", "busy", "rate"),
    }
)
"""Errors after which it is looked how far the upload has come, and gone on."""


class FileUpload:
    """One file on its way."""

    def __init__(self, server: ApiClient) -> None:
        self._server = server
        self._tell: Callable[[str], None] = lambda _: None
        self._item: UploadItem | None = None
        self._told = 0

    @property
    def next(self) -> str:
        """How to go on where it ends before its time."""
        if self._item is None:
            return ""
        came, whole = self._item["offset"], self._item["bytes"]
        return (
            f"the same command goes on: {size_words(came)} of {size_words(whole)} are kept "
            "at the server"
        )

    def send(self, file: ImageFile, name: str, sha256: str, tell: Callable[[str], None]) -> str:
        """Send what the server lacks of the file; the id of the whole upload. ``tell`` hears how
        far it has come.
        """
        self._tell = tell
        asked = FileToUpload(file=name, bytes=file.size, sha256=sha256)
        item = self._item = self._server.call(BEGIN_UPLOAD, asked).answer
        if 0 < item["offset"] < item["bytes"]:
            self._say("were there before")
        until = time.monotonic() + AWAY_S
        while item["offset"] < item["bytes"]:
            try:
                came = self._send_part(file, item)
                until = time.monotonic() + AWAY_S
            except VgpumgrError as error:
                if not _passes(error) or time.monotonic() > until:
                    error.next = error.next if not _passes(error) else self.next
                    raise
                time.sleep(RETRY_S)
                came = self._server.call(SHOW_UPLOAD, OneUpload(id=item["name"])).answer
            item = self._item = came
            self._say_now_and_then()
        return item["name"]

    def _send_part(self, file: ImageFile, item: UploadItem) -> UploadItem:
        start = item["offset"]
        end = min(item["bytes"], start + PART_BYTES)
        return self._server.append(item["name"], start, end - start, _pieces(file, start, end))

    def _say_now_and_then(self) -> None:
        assert self._item is not None
        came, whole = self._item["offset"], self._item["bytes"]
        if came - self._told >= max(PART_BYTES, int(whole * TOLD_SHARE)):
            self._say("are at the server")

    def _say(self, what: str) -> None:
        assert self._item is not None
        self._told = self._item["offset"]
        self._tell(f"{size_words(self._told)} of {size_words(self._item['bytes'])} {what}")


def _passes(error: VgpumgrError) -> bool:
    return error.code in _PASSES


def _pieces(file: ImageFile, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, PIECE_BYTES):
        length = min(PIECE_BYTES, end - at)
        piece = file.read(at, length)
        if len(piece) != length:
            raise BadImage(f"{file.path} became shorter while it was sent")
        yield piece
