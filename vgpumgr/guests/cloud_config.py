"""Cloud-config of several sources merged into one, and checked for what cloud-init would not say.

Lists are appended, mappings merged; one value said twice with a difference is refused with both
sources' names. cloud-init itself ignores a key that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HEAD = "#cloud-config"
# The user data of a VM's own file, as messages call it.
OWN = "cloud_init.user_data"
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "text": str, "list": list, "mapping": dict, "switch": bool, "number": (int, float),
    "any": object,
}  # fmt: skip


class CloudConfigError(ValueError):
    """Why sources of cloud-config cannot become one."""


def read_user_data(text: str) -> dict[str, Any]:
    """A VM's own user data as data. CloudConfigError where it is none that can be merged."""
    lines = text.lstrip().splitlines()
    if not lines or lines[0].strip() != HEAD:
        raise CloudConfigError(f"begins with {HEAD} where there are guest profiles, too")
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        said = getattr(error, "problem", None) or "it cannot be read"
        raise CloudConfigError(f"is no YAML: {where}{said}") from error
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise CloudConfigError("is no mapping of keys to values")
    return found


@dataclass(slots=True)
class _Merge:
    """The merged mapping, and which source said each value, by its path."""

    sources: dict[tuple[str, ...], str] = field(default_factory=dict)

    def into(self, whole: dict[str, Any], more: Mapping[str, Any], source: str, *at: str) -> None:
        """Add a source's mapping to the whole."""
        for key, value in more.items():
            path = (*at, key)
            if key not in whole:
                whole[key] = _copied(value)
                self._note(path, value, source)
            elif isinstance(whole[key], dict) and isinstance(value, dict):
                self.into(whole[key], value, source, *path)
            elif isinstance(whole[key], list) and isinstance(value, list):
                whole[key] += [_copied(each) for each in value if each not in whole[key]]
            elif whole[key] != value:
                first = self.sources.get(path, "another source")
                raise CloudConfigError(
                    f"{'.'.join(path)} is said by {first} and, with another value, by {source}"
                )

    def _note(self, path: tuple[str, ...], value: Any, source: str) -> None:
        self.sources[path] = source
        if isinstance(value, dict):
            for key, part in value.items():
                self._note((*path, key), part, source)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def merged(sources: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """One cloud-config of all, each with its name. CloudConfigError names the two that differ."""
    whole: dict[str, Any] = {}
    merge = _Merge()
    files: dict[str, str] = {}
    accounts: dict[str, str] = {}
    for source, config in sources:
        _refuse_twice(whole, config, "write_files", "path", (source, files))
        _refuse_twice(whole, config, "users", "name", (source, accounts))
        merge.into(whole, config, source)
    return whole


def _refuse_twice(
    whole: Mapping[str, Any],
    config: Mapping[str, Any],
    key: str,
    identity: str,
    said: tuple[str, dict[str, str]],
) -> None:
    """One file, or one account, that two sources have otherwise."""
    source, known = said
    for each in _entries(config, key):
        name = each.get(identity)
        if not isinstance(name, str):
            continue
        if name in known and each not in list(_entries(whole, key)):
            raise CloudConfigError(
                f"{name} of {key} is said by {known[name]} and, otherwise, by {source}"
            )
        known.setdefault(name, source)


def _entries(config: Mapping[str, Any], key: str) -> Iterable[Mapping[str, Any]]:
    found = config.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


@cache
def known_keys() -> Mapping[str, tuple[str, ...]]:
    """The keys of cloud-config and the kinds of value that each takes."""
    data = yaml.safe_load((Path(__file__).parent / "cloud_config_keys.yaml").read_text())
    return {key: tuple(kinds.split("|")) for key, kinds in data["keys"].items()}


def problems(config: Mapping[str, Any]) -> list[str]:
    """Keys that cloud-init does not know, and values of another kind than they take."""
    found, known = [], known_keys()
    for key, value in config.items():
        if key not in known:
            near = get_close_matches(key, known, 1)
            found.append(f"{key} is no key of cloud-config{f': {near[0]}?' if near else ''}")
        elif not any(_is_of(value, kind) for kind in known[key]):
            found.append(f"{key} takes a {' or a '.join(known[key])}")
    return found


def _is_of(value: object, kind: str) -> bool:
    is_switch = isinstance(value, bool)
    return isinstance(value, _TYPES[kind]) and (kind != "number" or not is_switch)


def text_of(config: Mapping[str, Any]) -> str:
    """The user data that cloud-init reads."""
    return f"{HEAD}\n{yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)}"
