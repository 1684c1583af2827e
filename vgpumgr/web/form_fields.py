"""Fields of a form as an endpoint's parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args, get_origin

from vgpumgr.api.parameters import all_parameters
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.errors import UsageError

Fields = list[tuple[str, str]]


def read_fields(name: str, fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Fields of a form as the endpoint's parameters, still texts. What is empty was not said;
    UsageError for one that it does not have.
    """
    kinds = all_parameters(ENDPOINTS[name]).model_fields
    found: dict[str, Any] = {}
    for key, text in fields:
        if key not in kinds:
            raise UsageError(f"{name} has no {key}")
        if _is_list(kinds[key].annotation):
            found.setdefault(key, []).append(text)
        elif text:
            found[key] = text
    return found


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list or any(_is_list(each) for each in get_args(kind))
