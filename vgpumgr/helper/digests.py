"""Digests of what a verb tells, by which a caller says what it knows already."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from vgpumgr.helper import arguments

_CHARACTERS = 32
_FORM = re.compile(rf"[0-9a-f]{{{_CHARACTERS}}}")
_MOST = 64


def of(content: object) -> str:
    """The same for the same content: 128 bits of SHA-256 over JSON in one form."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_CHARACTERS]


def known(args: Mapping[str, Any], name: str) -> Mapping[str, str]:
    """The digests that a caller presents, by part; none when the argument is absent."""
    given = args.get(name, {})
    if not isinstance(given, dict) or len(given) > _MOST:
        arguments.bad(name, f"no object of at most {_MOST} digests")
    for each in given.values():
        if not isinstance(each, str) or not _FORM.fullmatch(each):
            arguments.bad(name, f"an object with something else than digests of {_CHARACTERS}")
    return given
