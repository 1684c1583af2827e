"""Changes as the journal keeps them: plain data with a ``kind``."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.model import codec
from vgpumgr.model.layout import (
    CreateInstance,
    DestroyInstance,
    PartChange,
    SetMigMode,
    SetMixedSize,
    SetScheduler,
    SetVfs,
)

_KINDS: dict[str, type[PartChange]] = {
    "mig-mode": SetMigMode,
    "vfs": SetVfs,
    "mixed-size": SetMixedSize,
    "scheduler": SetScheduler,
    "destroy-instance": DestroyInstance,
    "create-instance": CreateInstance,
}
_NAMES = {kind: tag for tag, kind in _KINDS.items()}


def to_plain(change: PartChange) -> dict[str, object]:
    """``{"kind": "vfs", "count": 32}``."""
    return {"kind": _NAMES[type(change)], **codec.to_plain(change)}


def from_plain(data: Mapping[str, object]) -> PartChange:
    """The reverse of :func:`to_plain`; KeyError for a kind of another version."""
    return codec.from_plain(_KINDS[str(data["kind"])], data)
