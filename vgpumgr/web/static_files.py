"""Files that pages load: each has its digest in its address, and is kept by browsers for good."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response

from vgpumgr.model.errors import NotFound

FOLDER = Path(__file__).parent / "static"
PREFIX = "/static"
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def release() -> str:
    """A word that is another one as soon as one of the files is: part of their addresses, so that
    modules which import each other are of one release.
    """
    digest = hashlib.sha256()
    for path in _files():
        digest.update(path.encode() + b"\0" + (FOLDER / path).read_bytes())
    return digest.hexdigest()[:16]


def address(path: str) -> str:
    """Where a page finds the file."""
    return f"{PREFIX}/{release()}/{path}"


@cache
def _files() -> tuple[str, ...]:
    found = (each.relative_to(FOLDER).as_posix() for each in FOLDER.rglob("*") if each.is_file())
    return tuple(sorted(each for each in found if Path(each).suffix in _KINDS))


def add_static_files(api: FastAPI) -> None:
    """Serve them; nothing else of the folder."""

    @api.get(f"{PREFIX}/{{release}}/{{path:path}}", include_in_schema=False)
    def file(path: str) -> Response:
        if path not in _files():
            raise NotFound(f"no file {path}")
        return Response(
            (FOLDER / path).read_bytes(),
            media_type=_KINDS[Path(path).suffix],
            headers={"Cache-Control": "public, max-age=31536000, immutable"},
        )
