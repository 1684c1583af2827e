"""Fields of a form as an endpoint's parameters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl

from vgpumgr.api.parameters import all_parameters
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.errors import UsageError
from vgpumgr.web.questions import Choice

Fields = list[tuple[str, str]]
MOST_FIELDS = 5000


def posted_fields(body: bytes) -> Fields:
    """The fields of a form that was sent; UsageError where there are too many."""
    text = body.decode("utf-8", "replace")
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise UsageError(
            "the form has too many fields", next="choose fewer things at once"
        ) from error


def read_fields(
    name: str, fields: Iterable[tuple[str, str]], choices: Sequence[Choice] = ()
) -> dict[str, Any]:
    """Fields of a form as the endpoint's parameters, still texts. What is empty was not said;
    UsageError for one that it does not have. A list may be typed as words, or as lines, a mapping
    as words like ``A40-8Q=10``.
    """
    kinds = all_parameters(ENDPOINTS[name]).model_fields
    typed = {each.name: each.kind for each in choices}
    found: dict[str, Any] = {}
    for key, text in fields:
        if key not in kinds:
            raise UsageError(f"{name} has no {key}")
        if _is(dict, kinds[key].annotation):
            found |= {key: _mapping(text)} if text.strip() else {}
        elif not _is(list, kinds[key].annotation):
            found |= {key: text.replace("\r\n", "\n")} if text else {}
        elif values := _values(typed.get(key, ""), text):
            found.setdefault(key, []).extend(values)
    return found


def _mapping(text: str) -> dict[str, str]:
    pairs = [each.partition("=") for each in text.replace(",", " ").split()]
    for name, _, value in pairs:
        if not name or not value:
            raise UsageError(f"{text!r} is not like A40-8Q=10 T4-4Q=none")
    return {name: value for name, _, value in pairs}


def _values(kind: str, text: str) -> list[str]:
    if kind == "words":
        return text.split()
    if kind == "lines":
        return [each.strip() for each in text.splitlines() if each.strip()]
    return [text] if text else []


def typed_text(choice: Choice, asked: Mapping[str, Any]) -> str:
    """What a field holds: as it was typed."""
    value = asked.get(choice.name, "")
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return " ".join(f"{name}={each}" for name, each in value.items())
    return ("\n" if choice.kind == "lines" else " ").join(value)


def lacks(name: str, asked: Mapping[str, Any]) -> bool:
    """Is there a parameter that the endpoint needs, and that was not said?"""
    kinds = all_parameters(ENDPOINTS[name]).model_fields
    return any(each.is_required() and key not in asked for key, each in kinds.items())


def parameters_of(name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The part of it that the endpoint has as parameters."""
    known = all_parameters(ENDPOINTS[name]).model_fields
    return {key: asked[key] for key in known if key in asked}


def utc_seconds(text: str) -> float:
    """The Unix time of a day or moment in UTC; UsageError where it is none."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise UsageError(
            f"{text[:40]} is no time", next="2026-12-01T08:00, for instance"
        ) from error


def mark_of(name: str, asked: Mapping[str, Any]) -> str:
    """A short text for what the endpoint is asked: another one for anything else."""
    text = json.dumps(parameters_of(name, asked), sort_keys=True)
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _is(origin: type, kind: Any) -> bool:
    return get_origin(kind) is origin or any(_is(origin, each) for each in get_args(kind))
