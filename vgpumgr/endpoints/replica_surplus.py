"""The replicas of a file's VMs that the file has no longer."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.model.errors import AccessRefused, Conflict
from vgpumgr.model.formats import spanned
from vgpumgr.model.vm import VmRecord

if TYPE_CHECKING:
    from vgpumgr.model.scoped_reads import ScopedReads
    from vgpumgr.model.vm import VmSpec

# As ``replicas`` numbers them: at least two digits.
_REPLICA = re.compile(r"(.+)-(\d{2,})")
MOST_NAMED = 10


class SurplusItem(TypedDict):
    """A VM that the file has no longer. ``replica``: it is as the others of its group are or were,
    so that `apply --prune` deletes it; another one is left alone. ``runs`` is what was asked for.
    """

    vm: str
    host: str
    runs: bool
    replica: bool
    volumes: int


@dataclass(frozen=True, slots=True)
class Surplus:
    """VMs beyond the highest number that is desired of the same name: ``replicas`` have tenant,
    firmware, NICs and the image of the first disk of what is or was desired, ``others`` only such a
    name.
    """

    replicas: tuple[VmRecord, ...] = ()
    others: tuple[VmRecord, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The replicas by name."""
        return tuple(vm.name for vm in self.replicas)

    def items(self) -> list[SurplusItem]:
        """The JSON of all."""
        return [*(_item(vm, replica=True) for vm in self.replicas), *map(_other, self.others)]

    def notes(self, *, applied: bool = True) -> tuple[str, ...]:
        """What is left alone by an `apply` that does not prune, or by a deletion of the file; empty
        where there is nothing.
        """
        found = []
        if self.replicas:
            prune = "vgpumgr apply -f FILE --prune   (deletes them with their disks)"
            by_name = f"vgpumgr vm delete {' '.join(self.names[:MOST_NAMED])}"
            found += [
                f"not in the file, left alone: {spanned(self.names)}",
                f"  next: {prune if applied else by_name}",
            ]
        if self.others:
            names = [vm.name for vm in self.others]
            found += [
                f"not in the file, and no replica of it as it is: {spanned(names)}",
                f"  next: vgpumgr vm show {names[0]}; vgpumgr vm delete deletes one by its name",
            ]
        return tuple(found)


def _item(vm: VmRecord, *, replica: bool) -> SurplusItem:
    return {
        "vm": vm.name,
        "host": vm.host,
        "runs": vm.running,
        "replica": replica,
        "volumes": len(vm.volumes),
    }


def _other(vm: VmRecord) -> SurplusItem:
    return _item(vm, replica=False)


def surplus_of(reads: ScopedReads, desired: Sequence[VmSpec]) -> Surplus:
    """The surplus of what is desired, by the ledger."""
    known = {vm.name: vm for vm in reads.vms()}
    names = surplus([spec.name for spec in desired], known)
    if not names:
        return Surplus()
    group = {spec.name: spec for spec in desired if _REPLICA.fullmatch(spec.name)}
    like = [*group.values(), *(known[name].spec for name in group if name in known)]
    found = [known[name] for name in names]
    replicas = tuple(vm for vm in found if _is_alike(vm.spec, like))
    return Surplus(replicas, tuple(vm for vm in found if vm not in replicas))


def group_of(reads: ScopedReads, vm: VmRecord) -> tuple[VmRecord, ...]:
    """The other replicas of the document that a VM is a replica of; none where it is none."""
    if not _REPLICA.fullmatch(vm.name):
        return ()
    return tuple(
        each for each in reads.vms() if each.id != vm.id and _is_alike(each.spec, [vm.spec])
    )


def _is_alike(spec: VmSpec, others: Iterable[VmSpec]) -> bool:
    """Is it, but for what a replica may have changed since, as one of the same group?"""
    return any(_lasting(spec) == _lasting(each) for each in others)


def _lasting(spec: VmSpec) -> tuple[object, ...]:
    """What replicas of one document have in common, whichever of its versions they are of."""
    found = _REPLICA.fullmatch(spec.name)
    disks = tuple((each.pool, each.mode, each.image) for each in spec.disks[:1])
    return found and found[1], spec.tenant, spec.nics, spec.firmware, disks


def surplus(desired: Iterable[str], existing: Iterable[str]) -> list[str]:
    """Existing ``name-NN`` beyond the highest number that is desired of the same name."""
    highest: dict[str, int] = {}
    for name in desired:
        if found := _REPLICA.fullmatch(name):
            highest[found[1]] = max(highest.get(found[1], 0), int(found[2]))
    return sorted(
        name
        for name in existing
        if (found := _REPLICA.fullmatch(name))
        and int(found[2]) > highest.get(found[1], int(found[2]))
    )


def require_surplus(
    context: CallContext, desired: Sequence[VmSpec], names: Collection[str]
) -> tuple[str, ...]:
    """The VMs of these names that are replicas of what is desired, and too many. Conflict where one
    is none; AccessRefused where the caller may not delete one.
    """
    found = {vm.name: vm for vm in surplus_of(context.reads, desired).replicas}
    there = {vm.name for vm in context.reads.vms()}
    for name in sorted(there.intersection(names) - found.keys()):
        raise Conflict(
            f"{name} is not deleted: it is no surplus replica of the file",
            why="the file or the VM has changed since that was planned",
            next="vgpumgr plan -f FILE --prune",
        )
    may = context.scope_of(Permission.VM_DELETE)
    for name in names:
        if name in found and found[name].spec.tenant not in may:
            raise AccessRefused(
                f"{name} may not be deleted by you",
                why=f"that needs vm:delete in tenant {found[name].spec.tenant}",
                next="vgpumgr auth whoami; an administrator can grant more",
            )
    return tuple(name for name in names if name in found)
