"""Text with names in it that stand for what a VM is: ``{{ name }}``. No expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAMES = ("host", "name", "tenant")
_PLACE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put the values in; ValueError for a name that is none of theirs."""

    def value(found: re.Match[str]) -> str:
        name = found[1].strip()
        if name not in values:
            known = ", ".join(sorted(values))
            raise ValueError(f"{{{{ {name[:40]} }}}} is not known: there are {known}")
        return values[name]

    return _PLACE.sub(value, text)
