"""One call of a verb: the system it works on, its arguments and, for changes, on whose behalf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vgpumgr.helper.system import System


@dataclass(frozen=True)
class Call:
    """What a verb is given. ``fleet`` is empty and ``epoch`` 0 where no controller speaks."""

    system: System
    args: Mapping[str, Any]
    fleet: str = ""
    epoch: int = 0
