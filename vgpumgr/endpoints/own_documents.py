"""Documents of a caller who is limited to tenants: all that they name is the caller's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.model.errors import AccessRefused, Conflict, NameTaken, UsageError
from vgpumgr.model.vm import NAME, VmSpec

if TYPE_CHECKING:
    from vgpumgr.model.apply_plan import Plan
    from vgpumgr.model.image import ImageRecord
    from vgpumgr.spec import Documents


def own_documents(
    context: CallContext,
    documents: Documents,
    *,
    hosts: Permission | None = None,
    layouts: Permission | None = None,
) -> Documents:
    """The documents, each of a tenant of the caller's: one that names none is of the caller's only
    tenant. Hosts and layouts among them need those permissions in all tenants.

    UsageError where a document names no tenant and the caller has several; AccessRefused for
    another tenant's, and for what needs more; NameTaken for a name that is not the caller's.
    """
    if hosts is not None and documents.hosts:
        context.require_everywhere(hosts, f"Host {documents.hosts[0].name}")
    if layouts is not None and documents.layouts:
        context.require_everywhere(layouts, f"Layout {documents.layouts[0].name}")
    if context.scope.is_all:
        return documents
    untold = documents.of_no_tenant
    vms = own_vms(
        context,
        (_of_tenant(context, "VM", each, ("VM", each.name) in untold) for each in documents.vms),
    )
    pools = [
        replace(
            each,
            desktop=_of_tenant(context, "Pool", each.desktop, ("Pool", each.name) in untold),
        )
        for each in documents.pools
    ]
    _require_pool_names(context, [each.name for each in pools])
    _require_images(context, [each.desktop for each in pools])
    return replace(documents, vms=vms, pools=tuple(pools))


def own_vms(context: CallContext, specs: Iterable[VmSpec]) -> tuple[VmSpec, ...]:
    """The VMs, none of which is, waits for, or has a disk of what is not the caller's."""
    found = tuple(specs)
    if not context.scope.is_all:
        require_vm_names(context, [each.name for each in found])
        _require_afters(context, found)
        _require_images(context, found)
    return found


def require_new_vm_name(context: CallContext, name: str) -> None:
    """UsageError for what no VM can be called, Conflict for the name of one that there is or that
    waits in the queue, NameTaken where it is not the caller's.
    """
    if not re.fullmatch(NAME, name):
        raise UsageError(
            f"{name!r:.80} is not a name",
            why="at most 63 lower-case letters, digits and hyphens, no leading hyphen",
        )
    require_vm_names(context, [name])
    if any(vm.name == name for vm in context.reads.vms()):
        raise Conflict(f"VM {name} exists already", next=f"vgpumgr vm show {name}")
    if any(entry.name == name for entry in context.reads.queue()):
        raise Conflict(f"a VM {name} waits in the queue", next=f"vgpumgr queue show {name}")


def own_new_vm(context: CallContext, spec: VmSpec) -> VmSpec:
    """A VM for which no tenant is named: it is of the caller's only tenant."""
    return spec if context.scope.is_all else _of_tenant(context, "VM", spec, untold=True)


def require_own_plan(context: CallContext, plan: Plan) -> None:
    """NameTaken where by now a VM of the plan is not the caller's."""
    for action in plan.actions:
        if action.record is not None and action.record.spec.tenant not in context.scope:
            raise _taken("VM", action.vm.name)


def _of_tenant(context: CallContext, kind: str, spec: VmSpec, untold: bool) -> VmSpec:
    tenants = sorted(context.scope.tenants or ())
    if untold and len(tenants) > 1:
        raise UsageError(
            f"{kind} {spec.name} names no tenant, and you have several",
            next=f"write tenant: {tenants[0]}, or one of: {', '.join(tenants[1:])}",
        )
    if untold and tenants:
        return replace(spec, tenant=tenants[0])
    if spec.tenant not in context.scope:
        raise AccessRefused(
            f"{kind} {spec.name} is of tenant {spec.tenant}, where you may not do this",
            next="vgpumgr auth whoami; an administrator can grant more",
        )
    return spec


def _taken(kind: str, name: str) -> NameTaken:
    return NameTaken(f"the name {name} is taken", next=f"give the {kind} another name")


def require_vm_names(context: CallContext, names: Collection[str]) -> None:
    """NameTaken for a name of what is not the caller's."""
    ledger, reads, wanted = context.app.ledger, context.reads, set(names)
    there = {each.name for each in ledger.vms()} | {each.name for each in ledger.queue()}
    own = {each.name for each in reads.vms()} | {each.name for each in reads.queue()}
    there |= {each.name for each in ledger.desktops()}
    own |= {each.name for each in reads.desktops()}
    for name in sorted(wanted & there - own):
        raise _taken("VM", name)


def _require_pool_names(context: CallContext, names: Collection[str]) -> None:
    if names:
        there = {each.name for each in context.app.ledger.pools()}
        own = {each.name for each in context.reads.pools()}
        for name in sorted(there.intersection(names) - own):
            raise _taken("pool", name)


def _require_afters(context: CallContext, specs: Collection[VmSpec]) -> None:
    """NotFound where a VM waits for one that the caller never had in the queue."""
    from vgpumgr.engine.planning.vm_admission import require_known

    names = [name for each in specs if each.queue for name in (*each.queue.after, each.name)]
    if names:
        require_known(specs, context.reads.queue(names))


def _require_images(context: CallContext, specs: Collection[VmSpec]) -> None:
    """AccessRefused for a disk that is made from a bare volume: it may be another tenant's."""
    images: tuple[ImageRecord, ...] = context.reads.images() if specs else ()
    known = {name for each in images for name in (each.reference, each.volume)}
    before = {vm.name: {disk.image for disk in vm.spec.disks} for vm in context.reads.vms()}
    for spec in specs:
        for disk in spec.disks:
            if disk.image and disk.image not in known | before.get(spec.name, set()):
                raise AccessRefused(
                    f"{spec.name} has a disk from {disk.image}, which is no image of the fleet",
                    why="any other volume is for users who may see all tenants",
                    next="vgpumgr image list",
                )
