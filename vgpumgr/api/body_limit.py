"""The longest body of a request; what is longer is refused before it is read.

What an upload may have is a limit of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vgpumgr.api.problems import problem
from vgpumgr.model.errors import UsageError

MAX_BODY = 4 << 20
"""In bytes."""
TOO_LONG = 413
UPLOADS = "/v1/uploads/"


class BodyLimit:
    """Middleware: requests whose bodies are longer than ``most`` bytes are answered with 413."""

    def __init__(self, app: ASGIApp, most: int = MAX_BODY) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or is_upload(scope):
            await self._app(scope, receive, send)
        elif _told_length(scope) > self._most:
            answer = problem(UsageError(self._refusal), status=TOO_LONG)
            await answer(scope, receive, send)
        else:
            await self._app(scope, self._counted(receive), send)

    @property
    def _refusal(self) -> str:
        return f"a request's body is at most {self._most >> 20} MiB long"

    def _counted(self, receive: Receive) -> Receive:
        """Hands on what comes, as long as it is not too much."""
        left = self._most

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(TOO_LONG, self._refusal)
            return message

        return counted


def is_upload(scope: Mapping[str, Any]) -> bool:
    """Is it a piece of a file, which is as long as it is?"""
    return scope.get("method") == "PATCH" and str(scope["path"]).startswith(UPLOADS)


def _told_length(scope: Scope) -> int:
    """What the request says of its length; 0 where it says nothing."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0
