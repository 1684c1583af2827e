"""The manifest of a backup: a small volume next to those of its disks, written last.

It carries the digest of itself. What is cut off while it is written cannot be read, and is no
manifest.
"""

from __future__ import annotations

import hashlib
import json

from vgpumgr import domainxml
from vgpumgr.model.codec import dump, from_plain, to_plain
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict
from vgpumgr.model.ports import Host
from vgpumgr.model.vm_backup import MANIFEST_VERSION, BackupManifest

MOST_BYTES = 4 << 20
_WRONG = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class ManifestDamaged(Conflict):
    """A manifest is there and cannot be read, or is not what was written."""

    code = "conflict.backup-damaged"


def manifest_text(manifest: BackupManifest) -> bytes:
    """A JSON object: the manifest, and the SHA-256 of its compact text."""
    plain = to_plain(manifest)
    digest = hashlib.sha256(dump(plain).encode()).hexdigest()
    return json.dumps({"manifest": plain, "sha256": digest}, indent=1).encode() + b"\n"


def parsed(data: bytes, name: str) -> BackupManifest:
    """The manifest of a volume's bytes; ManifestDamaged where they are none, or of a later
    version.
    """
    try:
        found = json.loads(data.rstrip(b"\0"))
        plain = found["manifest"]
        if hashlib.sha256(dump(plain).encode()).hexdigest() != found["sha256"]:
            raise ValueError("its digest is another")
        if plain["version"] != MANIFEST_VERSION:
            raise ValueError(f"it is of version {plain['version']!r:.20}, not {MANIFEST_VERSION}")
        return from_plain(BackupManifest, plain)
    except _WRONG as error:
        raise ManifestDamaged(
            f"{name} is no manifest of a backup", why=f"{error}", next="vgpumgr backup list"
        ) from error


def read_manifest(host: Host, pool: str, volume: str) -> BackupManifest | None:
    """The manifest in that volume; None where there is no such volume. ManifestDamaged."""
    if host.storage.look(pool, volume) is None:
        return None
    data = host.storage.read(pool, volume, MOST_BYTES)
    return parsed(data, f"volume {pool}/{volume} on {host.name}")


def write_manifest(host: Host, pool: str, volume: str, manifest: BackupManifest) -> None:
    """Write it where no volume of that name is."""
    text = manifest_text(manifest)
    plan = VolumePlan(pool=pool, name=volume, capacity_bytes=len(text), format="raw")
    host.storage.create(pool, domainxml.volume(plan))
    host.storage.upload(pool, volume, text)
