"""The manifest of a backup: a small volume next to those of its disks, written last.

It carries the digest of itself. What is cut off while it is written cannot be read, and is no
manifest.
"""

from __future__ import annotations

import hashlib
import json
import re

from vgpumgr import domainxml
from vgpumgr.model.codec import dump, from_plain, to_plain
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import NAME
from vgpumgr.model.vm_backup import MANIFEST_VERSION, BackupManifest

MOST_BYTES = 4 << 20
_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LATEST = 253_402_300_800.0  # the year 10000
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
        file = json.loads(data.rstrip(b"\0"))
        plain = file["manifest"]
        if hashlib.sha256(dump(plain).encode()).hexdigest() != file["sha256"]:
            raise ValueError("its digest is another")
        if plain["version"] != MANIFEST_VERSION:
            raise ValueError(f"it is of version {plain['version']!r:.20}, not {MANIFEST_VERSION}")
        return _sensible(from_plain(BackupManifest, plain))
    except _WRONG as error:
        raise ManifestDamaged(
            f"{name} is no manifest of a backup", why=f"{error}", next="vgpumgr backup list"
        ) from error


def _sensible(manifest: BackupManifest) -> BackupManifest:
    """The same; ValueError or TypeError where a value cannot be what it stands for: a program that
    writes to a target can make a digest.
    """
    ids = manifest.id, manifest.fleet, manifest.vm_id, manifest.instance_id
    if not all(isinstance(each, str) and re.fullmatch(_UUID, each) for each in ids):
        raise ValueError("an id in it is none")
    if manifest.parent != "" and not (
        isinstance(manifest.parent, str) and re.fullmatch(_UUID, manifest.parent)
    ):
        raise ValueError("its parent is none")
    if not isinstance(manifest.tpm, str):
        raise TypeError("its TPM is none")
    if not isinstance(manifest.tenant, str) or not re.fullmatch(NAME, manifest.tenant):
        raise ValueError("its tenant is no name")
    if not 0 <= manifest.created_at < _LATEST:
        raise ValueError("its time is none")
    if not isinstance(manifest.document, dict):
        raise TypeError("it holds no VM")
    for disk in manifest.disks:
        texts = disk.guest_name, disk.volume, disk.sha256
        if not all(isinstance(each, str) for each in texts) or "/" in disk.volume:
            raise ValueError("a disk in it is none")
    return manifest


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
