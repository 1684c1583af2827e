"""`backup restore`: a VM made from a backup, as any other VM is made, with its disks as copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vgpumgr.engine.backups.backup_places import require_there, seen_on
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.reservation.nic_functions import mac_address
from vgpumgr.engine.storage.file_pool import FOLDERS
from vgpumgr.model.errors import Conflict
from vgpumgr.model.formats import counted
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_backup import BackupManifest, VmBackup

# What a file would ask for that a restored VM does not: it starts at once.
_LEFT_OUT = ("queue",)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """How the restored VM is other than it was: its ``name`` (empty: the same), its GPU parts
    by name (None: the same), and the storage ``pool`` of all its disks (empty: the same).
    """

    name: str = ""
    profiles: tuple[str, ...] | None = None
    pool: str = ""


def restored_spec(
    context: EngineContext,
    backup: VmBackup,
    request: RestoreRequest,
    read: Callable[[Mapping[str, Any]], Sequence[VmSpec]],
) -> VmSpec:
    """The VM to make from a backup. ``read`` makes specs of a document, with all checks: what lies
    on a target is not trusted more than a file. Conflict where document and disks do not match.
    """
    require_there(backup)
    _, manifest = seen_on(context, backup)
    specs = read(_document(context, backup, manifest, request))
    if len(specs) != 1:
        raise Conflict(
            f"backup {backup.id[:8]} does not hold one VM",
            why=f"its manifest has a document of {counted(len(specs), 'VM')}",
            next=f"vgpumgr backup verify {backup.id[:8]}",
        )
    [spec] = specs
    if len(spec.disks) != len(manifest.disks):
        raise Conflict(
            f"backup {backup.id[:8]} does not hold all disks of {backup.vm}",
            why=f"it has {len(manifest.disks)}, its VM {len(spec.disks)}",
            next=f"vgpumgr backup verify {backup.id[:8]}",
        )
    _refuse_pools(context, spec)
    disks = tuple(
        replace(disk, restored=(backup.pool, _own(backup, each.volume)))
        for disk, each in zip(spec.disks, manifest.disks, strict=True)
    )
    seed = spec.cloud_init and replace(spec.cloud_init, instance_id=manifest.instance_id)
    made = replace(spec, disks=disks, cloud_init=seed, tenant=backup.tenant)
    lives = any(vm.id == manifest.vm_id for vm in context.ledger.vms())
    renamed = spec.name != manifest.document.get("name")
    return made if lives or renamed else _same_machine(made, manifest.vm_id)


def _same_machine(spec: VmSpec, vm_id: str) -> VmSpec:
    """With the machine UUID and MAC addresses that the guest knows: what its file did not say of
    them followed from the VM's id.
    """
    nics = tuple(
        nic if nic.mac else replace(nic, mac=mac_address(vm_id, number))
        for number, nic in enumerate(spec.nics)
    )
    return replace(spec, uuid=spec.uuid or vm_id, nics=nics)


def _refuse_pools(context: EngineContext, spec: VmSpec) -> None:
    """Conflict where a disk would be made in a pool that takes no copy of a file."""
    shown = [pool for host in context.ledger.hosts() if host.facts for pool in host.facts.pools]
    for name in {disk.pool for disk in spec.disks}:
        kinds = {pool.kind for pool in shown if pool.name == name}
        if kinds and kinds.isdisjoint(FOLDERS):
            raise Conflict(
                f"{spec.name} cannot be restored into storage pool {name}",
                why=f"it is of kind {', '.join(sorted(kinds))}; a backup's files are copied into "
                f"folders ({', '.join(sorted(FOLDERS))})",
                next="--pool POOL, one that is a folder",
            )


def _document(
    context: EngineContext, backup: VmBackup, manifest: BackupManifest, request: RestoreRequest
) -> Mapping[str, Any]:
    """The document of the VM, with what is requested; where it gets another name, it gets a machine
    UUID and MAC addresses of its own: the VM may be there, or come back.
    """
    document = {key: each for key, each in manifest.document.items() if key not in _LEFT_OUT}
    if request.name and request.name != document.get("name"):
        document["name"] = request.name
        document.pop("uuid", None)
        document.pop("backup", None)
        nics = document.get("networks")
        if isinstance(nics, list):
            document["networks"] = [
                {key: value for key, value in each.items() if key != "mac"}
                for each in nics
                if isinstance(each, dict)
            ]
    if request.pool and isinstance(disks := document.get("disks"), list):
        document["disks"] = [
            {**each, "pool": request.pool} for each in disks if isinstance(each, dict)
        ]
    if request.profiles is not None:
        document["gpus"] = [{"profile": each} for each in request.profiles]
        if not request.profiles:
            del document["gpus"]
            document.pop("display", None)
    known = {each.name for each in context.ledger.flavours()}
    if document.get("flavour") not in known:
        document.pop("flavour", None)
    document["tenant"] = backup.tenant
    return document


def _own(backup: VmBackup, volume: str) -> str:
    """A name that the manifest gives: of the backup's own volumes, and no other."""
    if not volume.startswith(f"{backup.prefix}-") or "/" in volume:
        raise Conflict(
            f"the manifest of backup {backup.id[:8]} names a volume that is not its own",
            why=f"{volume!r:.80}",
            next=f"vgpumgr backup verify {backup.id[:8]}",
        )
    return volume
