"""The findings of pydantic in the user's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from vgpumgr import catalog
from vgpumgr.spec.spec_file import Path, SpecFindings, YamlTree, did_you_mean, either, shown

_QUOTED = re.compile("'([^']*)'")

_WRONG_TYPE = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
}

_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "is longer than {max_length} characters",
    "string_too_short": "must not be empty",
    "too_long": "holds {actual_length} entries, at most {max_length} are allowed",
    "too_short": "must hold at least {min_length} entry",
}


_OF_NO_KEY = frozenset({"[key]", "[name]", "[rules]"})
"""Parts of a place that no file has: a mapping's keys, and which way a key is written."""


def report(
    errors: list[ErrorDetails],
    model: type[BaseModel],
    tree: YamlTree,
    learned: frozenset[str],
    findings: SpecFindings,
) -> None:
    """Add each error to ``findings`` with its place in the file."""
    for error in errors:
        at = error.get("ctx", {}).get("at", ())
        path = tuple(part for part in (*error["loc"], *at) if part not in _OF_NO_KEY)
        by_key = error["type"] == "extra_forbidden" or "[key]" in error["loc"]
        mark = tree.key_mark(path) if by_key else tree.value_mark(path)
        if findings.full:
            findings.more += 1
            continue
        findings.profiles += error["type"] == "unknown_profile"
        findings.add(mark, _message(error, model, learned), path)


def _message(error: ErrorDetails, model: type[BaseModel], learned: frozenset[str]) -> str:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    match kind:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return _unknown_key(model, error["loc"])
        case "literal_error":
            return _unknown_word(value, context)
        case "string_type":
            return f'must be text: write "{value}"' if _plain(value) else "must be text"
        case "unknown_profile":
            return _unknown_profile(str(value), learned)
        case "unknown_board":
            return unknown_board(context.get("name", value))
        case "rule":
            return _rule(value, context)
        case "unshown":
            return str(context["message"])
        case "value_error":
            return str(context["error"])
    if kind in _WRONG_TYPE:
        return f"{_WRONG_TYPE[kind]}, not {_what(value)}"
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**context) + _number(value)
    return error["msg"]


def _unknown_key(model: type[BaseModel], loc: Path) -> str:
    key = str(loc[-1])
    known = _keys_at(model, loc[:-1])
    near = did_you_mean(key, known)
    return f"unknown key{near}" if near else f"unknown key; known are {', '.join(known)}"


def _keys_at(model: type[BaseModel], loc: Path) -> list[str]:
    """The keys that the model nested at ``loc`` takes."""
    for part in loc:
        if isinstance(part, str):
            fields = {field.alias or name: field for name, field in model.model_fields.items()}
            # A part may also be a key of the user's own, as the names of foreign configurations.
            model = (part in fields and _model_in(fields[part].annotation)) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each))), None)


def _unknown_word(value: object, context: Mapping[str, Any]) -> str:
    known = _QUOTED.findall(context["expected"])
    return f"must be {either(known)}, not {shown(value)}{did_you_mean(value, known)}"


def unknown_board(key: object) -> str:
    """What is said of a board that the catalogue lacks."""
    known = {each.key for each in catalog.boards()} | {each.key for each in catalog.sriov_boards()}
    return f"the catalogue has no board {shown(key)}{did_you_mean(key, known)}"


def _unknown_profile(name: str, learned: frozenset[str]) -> str:
    near = catalog.suggest(name[:255], learned)
    hint = f"; did you mean {either(near)}?" if near else ""
    return f"neither the catalogue nor a probed host knows a profile {shown(name)}{hint}"


def _rule(value: object, context: Mapping[str, Any]) -> str:
    message = str(context["message"])
    return message if isinstance(value, BaseModel | dict) else f"{shown(value)} {message}"


def _plain(value: object) -> bool:
    return isinstance(value, bool | int | float)


def _number(value: object) -> str:
    return f", not {value}" if _plain(value) else ""


def _what(value: object) -> str:
    match value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case list():
            return "a list"
    return shown(value)
