"""The ``screen`` of a VM or a desktop: heads and resolution, within what a vGPU can show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from vgpumgr import catalog
from vgpumgr.model.domain import Screen
from vgpumgr.spec.fields import Strict, refuse

MOST_HEADS = 16
_LEAST, _MOST = 320, 16_384


def _resolution(text: str) -> str:
    width, _, height = text.partition("x")
    sizes = [int(each) for each in (width, height) if each.isascii() and each.isdecimal()]
    if len(sizes) != 2 or not all(_LEAST <= each <= _MOST for each in sizes):
        refuse(f"is not a width and a height of {_LEAST} to {_MOST} pixels: like 1920x1080")
    return text


Resolution = Annotated[
    str,
    AfterValidator(_resolution),
    Field(json_schema_extra={"pattern": "^[0-9]{3,5}x[0-9]{3,5}$"}),
]


class ScreenModel(Strict):
    """Heads and resolution of the screen."""

    heads: int = Field(default=1, ge=1, le=MOST_HEADS)
    resolution: Resolution | None = None

    def value(self) -> Screen:
        """The screen in the model's words."""
        width, height = map(int, self.resolution.split("x")) if self.resolution else (0, 0)
        return Screen(heads=self.heads, width=width, height=height)

    def check(self, profiles: Sequence[str]) -> None:
        """Refuse what none of the named vGPU types can show; of an unknown one nothing is said."""
        wanted = self.value()
        for profile in profiles[:1]:  # the first vGPU shows it
            limits = catalog.screen_limits(profile)
            most = max((each.heads for each in limits), default=wanted.heads)
            if wanted.heads > most:
                refuse(f"{profile} has {most} at most", "screen", "heads")
            wide = max((each.width for each in limits), default=wanted.width)
            high = max((each.height for each in limits), default=wanted.height)
            if wanted.width > wide or wanted.height > high:
                refuse(f"{profile} shows {wide}x{high} at most", "screen", "resolution")
