"""Answers to browsers: HTML with the headers of a page, and errors as pages."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.status import HTTP_303_SEE_OTHER

from vgpumgr.api.problems import status_of
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.web.rendering import render

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}
HSTS = "max-age=31536000"
WORTH_PACKING = 16 << 10


def html(text: str, status: int = 200, request: Request | None = None) -> Response:
    """A page; of the ``request`` it is seen whether it came over TLS, and is to be asked for by
    nothing else, and whether a long page may be packed.
    """
    headers = dict(PAGE_HEADERS)
    if request is None:
        return HTMLResponse(text, status_code=status, headers=headers)
    if request.url.scheme == "https":
        headers["Strict-Transport-Security"] = HSTS
    data = text.encode()
    if len(data) >= WORTH_PACKING and "gzip" in request.headers.get("accept-encoding", ""):
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        data = gzip.compress(data, compresslevel=1)
    return HTMLResponse(data, status_code=status, headers=headers)


def to_page(path: str) -> Response:
    """Another page instead, whatever was asked for."""
    return RedirectResponse(path, status_code=HTTP_303_SEE_OTHER, headers=PAGE_HEADERS)


def error_page(error: VgpumgrError, frame: Mapping[str, Any]) -> Response:
    """What happened, why, and what to do next."""
    values = {"trail": "", **frame, "title": "It did not work", "problem": error.as_dict()}
    return html(render("error.html", values), status_of(error.code))
