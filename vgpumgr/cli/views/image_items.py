"""Images as ``vgpumgr image`` shows them: what they are, where they lie, who uses them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from vgpumgr.cli.output import fields
from vgpumgr.cli.views.ages import age
from vgpumgr.engine.images.using import pools_of, users
from vgpumgr.model.image import CopyState, ImageRecord
from vgpumgr.model.pool import PoolRecord
from vgpumgr.model.size import size_words
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.words import spanned


def image_item(
    image: ImageRecord, vms: Collection[VmRecord], pools: Collection[PoolRecord]
) -> dict[str, Any]:
    """One image. ``copies`` say by host where it lies, and which VMs use it there."""
    return {
        "name": image.reference,
        "image": image.name,
        "version": image.version,
        "state": state_of(image),
        "format": image.format,
        "virtual_bytes": image.virtual_bytes,
        "file_bytes": image.file_bytes,
        "sha256": image.sha256,
        "source": image.source,
        "created_at": image.created_at,
        "retired_at": image.retired_at,
        "volume": image.volume,
        "copies": [
            {
                "host": copy.host,
                "pool": copy.pool,
                "state": str(copy.state),
                "verified_at": copy.verified_at or None,
                "vms": list(users(image, vms, copy)),
            }
            for copy in image.copies
        ],
        "vms": list(users(image, vms)),
        "pools": list(pools_of(image, pools)),
    }


def state_of(image: ImageRecord) -> str:
    """``retired``; ``importing`` while copies come; ``ready``, or ``nowhere`` without a copy."""
    if image.retired_at is not None:
        return "retired"
    states = {copy.state for copy in image.copies}
    if CopyState.IMPORTING in states:
        return "importing"
    return "ready" if CopyState.THERE in states else "nowhere"


def image_text(item: Mapping[str, Any]) -> str:
    """One image for people."""
    return fields(
        [
            ("Image", item["name"]),
            ("State", item["state"]),
            ("Format", item["format"]),
            ("Disk", size_words(item["virtual_bytes"])),
            ("File", f"{size_words(item['file_bytes'])}, from {item['source']}"),
            ("SHA-256", item["sha256"]),
            ("Age", age(item["created_at"])),
            ("Volume", item["volume"]),
            ("Pools", ", ".join(item["pools"])),
            *(("Copy", _copy_text(copy)) for copy in item["copies"]),
        ]
    )


def _copy_text(copy: Mapping[str, Any]) -> str:
    """``gpu1, pool default: there, used by desk-01, desk-02``."""
    vms = copy["vms"]
    used = f", used by {spanned(vms, shown=4)}" if vms else ""
    return f"{copy['host']}, pool {copy['pool']}: {copy['state']}{used}"
