"""Conversion between a foreign file and layouts, with everything that could not be converted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import yaml

from vgpumgr.model.errors import UsageError
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import LayoutRule, LayoutSpec
from vgpumgr.spec.foreign.gpu_filters import GpuFilter, GpuTargets
from vgpumgr.spec.foreign.shared_format import ForeignFileModel, chosen, parse

E = TypeVar("E")

_NO_NAME = re.compile(r"[^a-z0-9]+")
_MAX_NAME = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedLayouts:
    """``layout`` names no host yet; None when nothing in the file is part of a layout.

    ``left_out`` are sentences: what the file says and a layout does not.
    """

    layout: LayoutSpec | None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedLayouts:
    """``text`` is the other tool's file; ``left_out`` what it has no words for."""

    text: str
    left_out: tuple[str, ...] = ()


def carry_in(
    config: str,
    entries: Sequence[E],
    targets: GpuTargets,
    rules_of: Callable[[E, GpuTargets], list[LayoutRule]],
) -> ImportedLayouts:
    """A configuration's entries as a layout.

    The last entry that matches a GPU wins there, the first rule here; rules of single devices
    come before those of boards.
    """
    rules: list[LayoutRule] = []
    for entry in reversed(entries):
        rules[:0] = rules_of(entry, targets)
    ordered = sorted(rules, key=lambda rule: not rule.devices)
    layout = LayoutSpec(name=_name(config), rules=tuple(ordered)) if ordered else None
    return ImportedLayouts(layout=layout, left_out=tuple(dict.fromkeys(targets.left_out)))


def carry_out(
    key: str,
    layouts: Sequence[LayoutSpec],
    gpus: Mapping[str, Sequence[GpuFacts]],
    entries_of: Callable[[LayoutSpec, GpuFilter], list[dict[str, Any]]],
) -> ExportedLayouts:
    """Layouts as configurations of their names; UsageError when there is nothing to write."""
    left_out: list[str] = []
    configs = {spec.name: entries_of(spec, GpuFilter(spec, gpus, left_out)) for spec in layouts}
    filled = {name: entries for name, entries in configs.items() if entries}
    if not filled:
        raise UsageError(f"nothing of these layouts goes into {key}", why="; ".join(left_out))
    text = yaml.safe_dump({"version": "v1", key: filled}, sort_keys=False)
    return ExportedLayouts(text=text, left_out=tuple(dict.fromkeys(left_out)))


def _name(config: str) -> str:
    """``all-1g.10gb`` → ``all-1g-10gb``."""
    name = _NO_NAME.sub("-", config.lower())[:_MAX_NAME].strip("-")
    return name or "imported"


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """``key`` holds a file's named configurations, ``file`` is its shape.

    ``rules`` are those of one entry, ``entries`` those of one layout.
    """

    key: str
    file: type[ForeignFileModel]
    rules: Callable[[Any, GpuTargets], list[LayoutRule]]
    entries: Callable[[LayoutSpec, GpuFilter], list[dict[str, Any]]]

    def read(
        self,
        data: bytes | str,
        source: str,
        config: str = "",
        gpus: Sequence[GpuFacts] = (),
        fleet: Sequence[GpuFacts] = (),
    ) -> ImportedLayouts:
        """One configuration as a layout; see ``vgpumgr.spec.foreign.read``."""
        parsed: Any = parse(data, source, self.file)
        name, entries = chosen(parsed.configs, config, source)
        return carry_in(name, entries, GpuTargets(gpus, fleet), self.rules)

    def write(
        self,
        layouts: Sequence[LayoutSpec],
        gpus: Mapping[str, Sequence[GpuFacts]] = MappingProxyType({}),
    ) -> ExportedLayouts:
        """Layouts as configurations of their names; see ``vgpumgr.spec.foreign.write``."""
        return carry_out(self.key, layouts, gpus, self.entries)
