"""The helper on the host and the one that we bring along."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.engine.drift.side import Side
from vgpumgr.helper import VERSION
from vgpumgr.model.drift import Drift, DriftKind


def drifts(side: Side) -> Iterator[Drift]:
    """One where their versions differ; a version that is not told is none."""
    found = side.facts.versions.helper
    if found in {"", VERSION}:
        return
    newer = found.isdecimal() and int(found) > int(VERSION)
    upgrade = f"vgpumgr host upgrade {side.host}"
    yield Drift(
        kind=DriftKind.HELPER,
        host=side.host,
        subject="helper",
        text=f"the helper on {side.host} is version {found}, this vgpumgr brings {VERSION}",
        wanted=VERSION,
        found=found,
        next="use the vgpumgr that installed it, or a newer one" if newer else upgrade,
    )
