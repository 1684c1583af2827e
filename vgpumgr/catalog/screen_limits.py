"""The heads and the pixels that a vGPU type shows at most, by the boards that have it."""

from __future__ import annotations

from functools import cache

from vgpumgr.catalog.boards import boards
from vgpumgr.model.domain import Screen


@cache
def screen_limits(profile: str) -> tuple[Screen, ...]:
    """One for each board with a type of that name of which heads and resolution are known."""
    return tuple(
        Screen(heads=each.heads, width=int(width), height=int(height))
        for board in boards()
        for each in board.types
        if each.profile == profile and each.heads and each.resolution
        for width, _, height in [each.resolution.partition("x")]
    )
