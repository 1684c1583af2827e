"""Image files of this machine, imported here or at a server."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.cli.running_command import carry_out, telling
from vgpumgr.endpoints.image_imports import IMPORT_IMAGE, ImageToImport, import_file

if TYPE_CHECKING:
    from vgpumgr.cli.command_context import Context
    from vgpumgr.client.api_client import ApiClient
    from vgpumgr.endpoints.endpoint import Result
    from vgpumgr.endpoints.images import ImageItem

_ANY_SIZE = 1 << 62
"""The largest disk is a setting of the server."""


def import_image(context: Context, path: str, asked: ImageToImport) -> Result[ImageItem]:
    """Import the file at an absolute path, wherever commands are carried out."""
    if context.server is not None:
        return _import_there(context, context.server, path, asked)
    here = replace(IMPORT_IMAGE, work=lambda call, asked: import_file(call, asked, path))
    total = len(asked.hosts) or len(context.app.ledger.hosts())
    return carry_out(context, here, asked, total=total)


def _import_there(
    context: Context, server: ApiClient, path: str, asked: ImageToImport
) -> Result[ImageItem]:
    """Import a file of this machine at a server, to which it is sent where the server needs it. It
    is looked at here, too: what the server would refuse is not sent.
    """
    from vgpumgr.client.file_upload import FileUpload
    from vgpumgr.engine.images.image_copies import ImageImport
    from vgpumgr.engine.images.image_import import FileNeeded, examined
    from vgpumgr.engine.steps.image_file import opened

    with telling(str) as tell:
        looked_at = ImageImport(
            path=path, name=asked.name, format=asked.format, most_bytes=_ANY_SIZE
        )
        sha256 = examined(looked_at, threading.Event(), tell).sha256
    try:
        return carry_out(context, IMPORT_IMAGE, replace(asked, sha256=sha256))
    except FileNeeded:
        upload = FileUpload(server)
        with telling(lambda: upload.next) as tell, opened(path) as file:
            id_ = upload.send(file, os.path.basename(path), sha256, tell)  # noqa: PTH119
    return carry_out(context, IMPORT_IMAGE, replace(asked, upload=id_))
