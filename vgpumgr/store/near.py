"""NotFound that says which name was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from vgpumgr.model.errors import NotFound

_WORDS = {"vm": "VM", "gpu": "GPU"}


def _word(noun: str) -> str:
    return _WORDS.get(noun, noun)


def not_found(noun: str, name: str, known: Iterable[str]) -> NotFound:
    """The error for a name that is not there; ``noun`` is the CLI's word for it."""
    message = f"{name} is not in the queue" if noun == "queue" else f"no {_word(noun)} {name}"
    near = get_close_matches(name, list(known), n=3)
    if not near:
        return NotFound(message, next=f"vgpumgr {noun} list")
    return NotFound(
        message,
        why=f"did you mean {' or '.join(near)}?",
        next=f"vgpumgr {noun} show {near[0]}",
    )
