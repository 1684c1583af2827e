"""Names that a VM may have, made of names that others gave."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import count

from vgpumgr.model.vm import NAME

MOST = 63


def legal_name(name: str) -> str:
    """``CAD_01 (Berlin)`` → ``cad-01-berlin``; ``vm`` where nothing of it can be in a name."""
    found = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MOST].strip("-")
    return found if re.fullmatch(NAME, found) else f"vm-{found}"[:MOST].strip("-")


def free_name(name: str, taken: Collection[str]) -> str:
    """The name itself, or with the first number that makes it one that is not taken."""
    if name not in taken:
        return name
    numbered = (f"{name[: MOST - 4]}-{number}" for number in count(2))
    return next(each for each in numbered if each not in taken)
