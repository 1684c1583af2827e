"""Long bodies are refused: by what is told of them, and by what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from vgpumgr.api.body_limit import BodyLimit

MOST = 1 << 20


def sent(parts: Sequence[bytes], headers: Sequence[tuple[bytes, bytes]] = ()) -> tuple[int, int]:
    """The status of the answer, and how many messages of the body were taken."""
    taken, statuses, left = 0, [], list(parts)

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status", 0))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200})

    limited: Any = BodyLimit(app, MOST)
    asyncio.run(limited({"type": "http", "headers": list(headers)}, receive, send))
    return statuses[0], taken


def test_a_body_as_long_as_may_be_is_taken() -> None:
    assert sent([b"x" * (MOST // 2)] * 2) == (200, 2)


@pytest.mark.parametrize("told", [str(MOST + 1), "9" * 40])
def test_one_that_is_told_to_be_longer_is_not_read(told: str) -> None:
    assert sent([b"x"], [(b"content-length", told.encode())]) == (413, 0)


def test_one_that_becomes_longer_is_read_no_further() -> None:
    with pytest.raises(HTTPException) as refused:
        sent([b"x" * MOST, b"x", b"x"])
    assert refused.value.status_code == 413
