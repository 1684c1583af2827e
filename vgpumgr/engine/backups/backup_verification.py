"""`backup verify`: the bytes on the target compared with what the manifest says of them."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.backups.backup_places import require_there, seen_on
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.steps.backup_manifest import ManifestDamaged
from vgpumgr.engine.steps.tpm_backup import digest_of, read_tpm
from vgpumgr.engine.steps.volume_steps import file_digest
from vgpumgr.model.errors import Interrupted, NotFound
from vgpumgr.model.ports import Host
from vgpumgr.model.vm_backup import BackupManifest, VmBackup


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBackup:
    """What was compared, on which host; ``fault`` is empty where all is as it was written."""

    backup: VmBackup
    host: str = ""
    disks: int = 0
    fault: str = ""


def verify(context: EngineContext, backup: VmBackup) -> VerifiedBackup:
    """Read every byte of it, on a host that sees it; what was found is kept. HostUnreachable where
    nothing can be said of it now.
    """
    require_there(backup)
    try:
        host, manifest = seen_on(context, backup)
    except (ManifestDamaged, NotFound) as error:
        fault = f"{error.message}: {error.why}"
        context.ledger.backup_verified(backup.id, fault)
        return VerifiedBackup(backup=backup, fault=fault)
    fault = _fault(context, host, backup, manifest) or _below(context, backup)
    context.ledger.backup_verified(backup.id, fault)
    return VerifiedBackup(backup=backup, host=host.name, disks=len(manifest.disks), fault=fault)


def _below(context: EngineContext, backup: VmBackup) -> str:
    """What is wrong with the backup that it is laid over, which is verified as well."""
    if not backup.parent:
        return ""
    known = {each.id: each for each in context.ledger.vm_backups(backup.vm_id)}
    if backup.parent not in known:
        return f"backup {backup.parent[:8]}, which it is laid over, is gone"
    found = verify(context, known[backup.parent])
    return f"it is laid over {backup.parent[:8]}: {found.fault}" if found.fault else ""


def _fault(context: EngineContext, host: Host, backup: VmBackup, manifest: BackupManifest) -> str:
    for disk in manifest.disks:
        if context.stop.is_set():
            raise Interrupted("interrupted", why="nothing was said of the backup")
        found = host.storage.look(backup.pool, disk.volume)
        if found is None:
            return f"volume {backup.pool}/{disk.volume} is gone"
        context.tell(f"{backup.vm}: {disk.guest_name} of {backup.id[:8]}")
        if file_digest(host, found.path) != disk.sha256:
            return f"the bytes of {backup.pool}/{disk.volume} are not as they were written"
    if manifest.tpm and digest_of(read_tpm(host, backup.pool, backup.tpm_volume)) != manifest.tpm:
        return f"the bytes of {backup.pool}/{backup.tpm_volume} are not as they were written"
    return ""
