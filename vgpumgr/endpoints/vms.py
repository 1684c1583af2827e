"""The endpoints of VMs: list, show, XML, file, start, stop, reboot, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.figure_items import part_hour
from vgpumgr.endpoints.outcomes import OutcomeItem, UserItem, outcome_result, user_items
from vgpumgr.endpoints.refreshed import refresh
from vgpumgr.endpoints.shapes import ItemList, Labels, Name, matches, selector
from vgpumgr.endpoints.tags import vm_tag
from vgpumgr.endpoints.top import part_figures
from vgpumgr.endpoints.vm_items import VmItem, vm_items
from vgpumgr.model.errors import NotFound
from vgpumgr.model.formats import counted
from vgpumgr.model.queue import QueueState

if TYPE_CHECKING:
    from vgpumgr.engine.operations.operation_outcome import Outcome
    from vgpumgr.engine.use_cases import Engine

Names = Annotated[tuple[Name, ...], ParameterLimits(min_length=1, max_length=10_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class VmFilter:
    """VMs with all of these ``labels``; ``refresh``: their hosts are probed first."""

    labels: Labels = ()
    refresh: bool = False


def list_vms(context: CallContext, asked: VmFilter) -> Result[ItemList[VmItem]]:
    """The VMs; a note counts those in the queue."""
    unread = refresh(context) if asked.refresh else None
    reads, wanted = context.reads, selector(asked.labels)
    items = [item for item in vm_items(reads) if matches(item["labels"], wanted)]
    waiting = sum(each.state is QueueState.WAITING for each in reads.queue())
    note = f"{counted(waiting, 'VM')} in the queue: vgpumgr queue list"
    return Result(answer={"items": items}, notes=(note,) if waiting else (), error=unread)


LIST_VMS = Endpoint(
    name="vm.list",
    method=HttpMethod.GET,
    path="/vms",
    permission=Permission.VM_READ,
    summary="VMs, and domains that others made.",
    asks=VmFilter,
    answers=ItemList[VmItem],
    kind="VMList",
    work=list_vms,
    scoped=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneVm:
    """A VM by its name."""

    name: Name


def show_vm(context: CallContext, asked: OneVm) -> Result[VmItem]:
    """One VM; NotFound suggests near names."""
    reads = context.reads
    found = reads.vm(asked.name)
    item = next((item for item in vm_items(reads) if item["id"] == found.id), None)
    if item is None:
        raise NotFound(f"VM {asked.name} is deleted", next="vgpumgr vm list")
    now = part_figures(context, [found.host])
    for part in item["gpus"]:
        part["now"] = now.get((found.id, part["device"]))
        part["hour"] = part_hour(context.app, found.id, part["device"])
    return Result(answer=item)


SHOW_VM = Endpoint(
    name="vm.show",
    method=HttpMethod.GET,
    path="/vms/{name}",
    permission=Permission.VM_READ,
    summary="One VM.",
    asks=OneVm,
    answers=VmItem,
    kind="VM",
    tag=vm_tag,
    work=show_vm,
    scoped=True,
)


class DomainXml(TypedDict):
    """The domain XML as libvirt on the host has it."""

    name: str
    xml: str


def show_xml(context: CallContext, asked: OneVm) -> Result[DomainXml]:
    """The domain XML from libvirt on the host."""
    context.require_vms([asked.name])
    xml = context.app.engine.domain_xml(asked.name)
    return Result(answer={"name": asked.name, "xml": xml})


SHOW_XML = Endpoint(
    name="vm.xml",
    method=HttpMethod.GET,
    path="/vms/{name}/xml",
    permission=Permission.VM_READ,
    summary="The domain XML from libvirt on the host.",
    asks=OneVm,
    answers=DomainXml,
    kind="DomainXML",
    work=show_xml,
    runs=Runs.WORKER,
    scoped=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartVms:
    """VMs to start."""

    names: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class StopVms:
    """VMs to stop: their guests are asked, for ``timeout_s``, or with ``force`` cut off at once.
    ``release_gpu``: what they hold is given back, but their disks. ``with_users``: even where users
    are at work.
    """

    names: Names
    force: bool = False
    timeout_s: Annotated[float, ParameterLimits(ge=0, le=86400)] = 60.0
    release_gpu: bool = False
    with_users: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RebootVms:
    """VMs to reboot; ``force``: off and on, without asking their guests."""

    names: Names
    force: bool = False
    with_users: bool = False


def start_vms(context: CallContext, asked: StartVms) -> Result[OutcomeItem]:
    """Start VMs; GPU parts that a host lost come back first."""
    return _power(context, asked.names, lambda engine, names: engine.start(names))


def stop_vms(context: CallContext, asked: StopVms) -> Result[OutcomeItem]:
    """Stop VMs; UsersAtWork where a user would be cut off unnamed."""

    def stop(engine: Engine, names: Sequence[str]) -> Outcome:
        if asked.release_gpu:
            from vgpumgr.engine.reservation.shelf_reservations import StopManner

            return engine.shelve(names, StopManner(force=asked.force, timeout_s=asked.timeout_s))
        return engine.stop_vms(
            names, force=asked.force, timeout_s=asked.timeout_s, with_users=asked.with_users
        )

    return _power(context, asked.names, stop, users=asked.with_users and not asked.release_gpu)


def reboot_vms(context: CallContext, asked: RebootVms) -> Result[OutcomeItem]:
    """Reboot VMs; UsersAtWork where a user would be cut off unnamed."""

    def reboot(engine: Engine, names: Sequence[str]) -> Outcome:
        return engine.reboot(names, force=asked.force, with_users=asked.with_users)

    return _power(context, asked.names, reboot, users=asked.with_users)


def _power(
    context: CallContext,
    names: Sequence[str],
    act: Callable[[Engine, Sequence[str]], Outcome],
    *,
    users: bool = False,
) -> Result[OutcomeItem]:
    """``users``: those at work there are cut off by it."""
    context.require_vms(names)
    once = tuple(dict.fromkeys(names))
    there = context.app.engine.users_on(once) if users else ()
    with context.changing() as engine:
        outcome = act(engine, once)
    return outcome_result(outcome, there)


def _power_endpoint(verb: str, asks: type[Any], work: Any, summary: str) -> Endpoint[Any, Any]:
    return Endpoint(
        name=f"vm.{verb}",
        method=HttpMethod.POST,
        path=f"/vms:{verb}",
        permission=Permission.VM_POWER,
        summary=summary,
        asks=asks,
        answers=OutcomeItem,
        kind="Outcome",
        work=work,
        runs=Runs.OPERATION,
        scoped=True,
        size=lambda asked: len(asked.names),
    )


START_VMS = _power_endpoint("start", StartVms, start_vms, "Start VMs.")
STOP_VMS = _power_endpoint("stop", StopVms, stop_vms, "Stop VMs; they keep their GPU parts.")
REBOOT_VMS = _power_endpoint("reboot", RebootVms, reboot_vms, "Reboot VMs.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVms:
    """VMs to delete with the disks made for them (but for ``keep_disks``); a running one needs
    ``force``.
    """

    names: Names
    keep_disks: bool = False
    force: bool = False


def delete_vms(context: CallContext, asked: DeleteVms) -> Result[OutcomeItem]:
    """Delete VMs; NotFound where one is none, and nothing is changed."""
    for name in asked.names:
        context.reads.vm(name)
    names = tuple(dict.fromkeys(asked.names))
    with context.changing() as engine:
        outcome = engine.delete(names, keep_disks=asked.keep_disks, force=asked.force)
    return outcome_result(outcome)


DELETE_VMS = Endpoint(
    name="vm.delete",
    method=HttpMethod.POST,
    path="/vms:delete",
    permission=Permission.VM_DELETE,
    summary="Delete VMs, with the disks and GPU parts created for them.",
    asks=DeleteVms,
    answers=OutcomeItem,
    kind="Outcome",
    work=delete_vms,
    runs=Runs.OPERATION,
    scoped=True,
    size=lambda asked: len(asked.names),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmNames:
    """VMs by their names."""

    names: Names


class UsersOnVms(TypedDict):
    """Users at work on these VMs: a stop would cut them off."""

    name: str
    users: list[UserItem]


def list_users_on(context: CallContext, asked: VmNames) -> Result[UsersOnVms]:
    """Users at work on VMs, by the last look; NotFound where one is no VM."""
    from vgpumgr.engine.desktops.user_sessions import at_work
    from vgpumgr.engine.inventory.ledger_view import read_view

    for name in asked.names:
        context.reads.vm(name)
    ledger = context.app.ledger
    found = at_work(ledger, read_view(ledger)).values()
    users = [each for each in found if each.vm in asked.names]
    return Result(answer={"name": "users", "users": user_items(users)})


LIST_USERS = Endpoint(
    name="vm.users",
    method=HttpMethod.GET,
    path="/vms:users",
    permission=Permission.VM_READ,
    summary="Users at work on VMs, whom a stop would cut off.",
    asks=VmNames,
    answers=UsersOnVms,
    kind="UsersOnVMs",
    work=list_users_on,
    scoped=True,
)


class DeletedVms(TypedDict):
    """What a deletion takes: the VMs, each once, which of them ``run``, and the volumes that
    were made for them.
    """

    name: str
    vms: list[str]
    run: list[str]
    volumes: list[str]


def preview_delete(context: CallContext, asked: VmNames) -> Result[DeletedVms]:
    """What deleting these VMs takes; NotFound where one is none."""
    reads = context.reads
    for name in asked.names:
        reads.vm(name)
    names = list(dict.fromkeys(asked.names))
    wanted = set(names)
    found = [each for each in reads.vms() if each.name in wanted]
    volumes = [f"{pool}/{n}" for vm in found for pool, n in vm.every_volume]
    run = [each.name for each in found if each.running]
    return Result(answer={"name": "delete", "vms": names, "run": run, "volumes": volumes})


PREVIEW_DELETE = Endpoint(
    name="vm.preview-delete",
    method=HttpMethod.POST,
    path="/vms:preview-delete",
    permission=Permission.VM_READ,
    summary="What deleting VMs takes; nothing is changed.",
    asks=VmNames,
    answers=DeletedVms,
    kind="DeletedVMs",
    work=preview_delete,
    scoped=True,
)


class VmFile(TypedDict):
    """A VM as a document, in YAML: to be changed, and applied."""

    name: str
    text: str


def show_file(context: CallContext, asked: OneVm) -> Result[VmFile]:
    """The document of a VM, by the ledger; NotFound suggests near names."""
    import yaml

    from vgpumgr.spec.dump import vm_document

    spec = context.reads.vm(asked.name).spec
    text = yaml.safe_dump(vm_document(spec), sort_keys=False, allow_unicode=True)
    return Result(answer={"name": spec.name, "text": text})


SHOW_FILE = Endpoint(
    name="vm.file",
    method=HttpMethod.GET,
    path="/vms/{name}/file",
    permission=Permission.VM_CREATE,
    summary="The document of a VM, to be changed and applied.",
    asks=OneVm,
    answers=VmFile,
    kind="VMFile",
    work=show_file,
    scoped=True,
)

ENDPOINTS = (
    LIST_VMS, LIST_USERS, SHOW_VM, SHOW_XML, START_VMS, STOP_VMS, REBOOT_VMS,
    PREVIEW_DELETE, DELETE_VMS, SHOW_FILE,
)  # fmt: skip
