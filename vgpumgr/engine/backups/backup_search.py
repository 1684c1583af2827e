"""`backup target search`: backups that lie on a target, and that the ledger does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vgpumgr.engine.backups.backup_places import target_of
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.steps.backup_manifest import ManifestDamaged, read_manifest
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import NAME
from vgpumgr.model.vm_backup import BackupManifest, BackupState, BackupTarget, VmBackup

_MANIFEST = rf"({NAME})-[0-9a-f]{{8}}\.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSearch:
    """``found`` are the backups that are in the ledger now, ``unreadable`` volumes that look like a
    manifest and are none, ``silent`` why hosts could not be asked.
    """

    found: tuple[VmBackup, ...] = ()
    unreadable: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def search(context: EngineContext, name: str) -> BackupSearch:
    """Look on every host that has the target's pool; what is found is of the tenant that its
    manifest names, whichever fleet made it.
    """
    target = target_of(context, name)
    known = {each.id for each in context.ledger.vm_backups()}
    found: dict[str, VmBackup] = {}
    unreadable: list[str] = []
    silent: list[str] = []
    for record in context.ledger.hosts():
        if not record.facts or all(each.name != target.pool for each in record.facts.pools):
            continue
        try:
            for each in _on_host(context.hosts.open(record), target, known | set(found)):
                if isinstance(each, VmBackup):
                    found[each.id] = each
                else:
                    unreadable.append(f"{record.name}: {each}")
        except VgpumgrError as error:
            silent.append(f"{record.name}: {error.message}")
    for backup in found.values():
        context.ledger.enter_backup(backup)
    return BackupSearch(
        found=tuple(found.values()), unreadable=tuple(unreadable), silent=tuple(silent)
    )


def _on_host(host: Host, target: BackupTarget, known: set[str]) -> Iterator[VmBackup | str]:
    ids = {each[:8] for each in known}
    for volume in host.storage.volumes(target.pool):
        named = re.fullmatch(_MANIFEST, volume.name)
        if named is None or volume.name[-13:-5] in ids:
            continue
        try:
            manifest = read_manifest(host, target.pool, volume.name)
        except ManifestDamaged as error:
            yield f"{volume.name}: {error.why}"
            continue
        if manifest is None:
            continue
        backup = _backup(host.name, target, named[1], manifest)
        yield backup if backup is not None else f"{volume.name}: it is not what its name says"


def _backup(host: str, target: BackupTarget, vm: str, manifest: BackupManifest) -> VmBackup | None:
    """None where the manifest says other things than its place does."""
    if manifest.document.get("name") != vm:
        return None
    return VmBackup(
        id=manifest.id,
        vm_id=manifest.vm_id,
        vm=vm,
        tenant=manifest.tenant,
        target=target.name,
        pool=target.pool,
        host=host,
        created_at=manifest.created_at,
        moment=manifest.moment,
        state=BackupState.THERE,
        parent=manifest.parent,
    )
