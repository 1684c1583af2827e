"""What came over from another tool's file, or went into one, and what could not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml

from vgpumgr.model.errors import UsageError
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import LayoutRule, LayoutSpec
from vgpumgr.spec.foreign.boards import Targets
from vgpumgr.spec.foreign.where import Where

E = TypeVar("E")

_NO_NAME = re.compile(r"[^a-z0-9]+")
_MAX_NAME = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """``layout`` names no host yet; None when nothing in the file is part of a layout.

    ``left_out`` are sentences: what the file says and a layout does not.
    """

    layout: LayoutSpec | None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """``text`` is the other tool's file; ``left_out`` what it has no words for."""

    text: str
    left_out: tuple[str, ...] = ()


def carry_in(
    config: str,
    entries: Sequence[E],
    targets: Targets,
    rules_of: Callable[[E, Targets], list[LayoutRule]],
) -> Imported:
    """A configuration's entries as a layout.

    The last entry that matches a GPU wins there, the first rule here; rules of single devices
    come before those of boards.
    """
    rules: list[LayoutRule] = []
    for entry in reversed(entries):
        rules[:0] = rules_of(entry, targets)
    ordered = sorted(rules, key=lambda rule: not rule.devices)
    layout = LayoutSpec(name=_name(config), rules=tuple(ordered)) if ordered else None
    return Imported(layout=layout, left_out=tuple(dict.fromkeys(targets.left_out)))


def carry_out(
    key: str,
    layouts: Sequence[LayoutSpec],
    gpus: Mapping[str, Sequence[GpuFacts]],
    entries_of: Callable[[LayoutSpec, Where], list[dict[str, Any]]],
) -> Exported:
    """Layouts as configurations of their names; UsageError when there is nothing to write."""
    left_out: list[str] = []
    configs = {spec.name: entries_of(spec, Where(spec, gpus, left_out)) for spec in layouts}
    filled = {name: entries for name, entries in configs.items() if entries}
    if not filled:
        raise UsageError(f"nothing of these layouts goes into {key}", why="; ".join(left_out))
    text = yaml.safe_dump({"version": "v1", key: filled}, sort_keys=False)
    return Exported(text=text, left_out=tuple(dict.fromkeys(left_out)))


def _name(config: str) -> str:
    """``all-1g.10gb`` → ``all-1g-10gb``."""
    name = _NO_NAME.sub("-", config.lower())[:_MAX_NAME].strip("-")
    return name or "imported"
