"""One tool's file format: what its entries are, and how they become rules and come from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import LayoutRule, LayoutSpec
from vgpumgr.spec.foreign.boards import Targets
from vgpumgr.spec.foreign.carried import Exported, Imported, carry_in, carry_out
from vgpumgr.spec.foreign.files import FileModel, chosen, parse
from vgpumgr.spec.foreign.where import Where


@dataclass(frozen=True, slots=True)
class Format:
    """``key`` holds a file's named configurations, ``file`` is its shape.

    ``rules`` are those of one entry, ``entries`` those of one layout.
    """

    key: str
    file: type[FileModel]
    rules: Callable[[Any, Targets], list[LayoutRule]]
    entries: Callable[[LayoutSpec, Where], list[dict[str, Any]]]

    def read(
        self,
        data: bytes | str,
        source: str,
        config: str = "",
        gpus: Sequence[GpuFacts] = (),
        fleet: Sequence[GpuFacts] = (),
    ) -> Imported:
        """One configuration as a layout; see ``vgpumgr.spec.foreign.read``."""
        parsed: Any = parse(data, source, self.file)
        name, entries = chosen(parsed.configs, config, source)
        return carry_in(name, entries, Targets(gpus, fleet), self.rules)

    def write(
        self,
        layouts: Sequence[LayoutSpec],
        gpus: Mapping[str, Sequence[GpuFacts]] = MappingProxyType({}),
    ) -> Exported:
        """Layouts as configurations of their names; see ``vgpumgr.spec.foreign.write``."""
        return carry_out(self.key, layouts, gpus, self.entries)
