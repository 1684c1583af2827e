"""The endpoints of flavours: list, show, delete, and documents of them planned and applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.access import Done
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import DocumentText, documents_of, source_name
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.model.errors import UsageError
from vgpumgr.model.flavour import Flavour

if TYPE_CHECKING:
    from vgpumgr.model.scoped_reads import ScopedReads


class FlavourItem(TypedDict):
    """A flavour: the ``keys`` that files of VMs and pools get from it, as a file has them, and the
    class of the hosts. ``vms`` and ``pools`` have it, as far as the caller may see them.
    """

    name: str
    keys: dict[str, Any]
    host_class: str
    set_at: Time
    set_by: str
    vms: list[str]
    pools: list[str]


def flavour_items(flavours: Iterable[Flavour], reads: ScopedReads) -> list[FlavourItem]:
    """The JSON of flavours."""
    vms: dict[str, list[str]] = {}
    for vm in reads.vms():
        vms.setdefault(vm.spec.flavour, []).append(vm.name)
    pools: dict[str, list[str]] = {}
    for pool in reads.pools():
        pools.setdefault(pool.spec.desktop.flavour, []).append(pool.name)
    return [
        {
            "name": each.name,
            "keys": dict(each.keys),
            "host_class": each.host_class,
            "set_at": each.set_at,
            "set_by": each.set_by,
            "vms": vms.get(each.name, []),
            "pools": pools.get(each.name, []),
        }
        for each in flavours
    ]


def list_flavours(context: CallContext, _: Nothing) -> Result[ItemList[FlavourItem]]:
    """Every flavour."""
    return Result(answer={"items": flavour_items(context.app.ledger.flavours(), context.reads)})


@dataclass(frozen=True, slots=True, kw_only=True)
class OneFlavour:
    """A flavour by its name."""

    name: Name


def show_flavour(context: CallContext, asked: OneFlavour) -> Result[FlavourItem]:
    """One flavour; NotFound."""
    from vgpumgr.store.database.faults import not_found

    known = {each.name: each for each in context.app.ledger.flavours()}
    if asked.name not in known:
        raise not_found("flavour", asked.name, known)
    [item] = flavour_items([known[asked.name]], context.reads)
    return Result(answer=item)


def delete_flavour(context: CallContext, asked: OneFlavour) -> Result[Done]:
    """Forget it; InUse while a VM or a pool has it."""
    context.app.writable_ledger.delete_flavour(asked.name)
    return Result(answer={"name": "deleted", "names": [asked.name]})


class FlavourChange(TypedDict):
    """What a document changes of a flavour: a line per key; ``used`` counts the VMs and pools that
    have it, and change when their files are applied again.
    """

    name: str
    new: bool
    changes: list[str]
    used: int


class FlavourChanges(TypedDict):
    """What documents change of flavours: ``changes`` counts the flavours."""

    name: str
    changes: int
    flavours: list[FlavourChange]


def flavour_changes(context: CallContext, wanted: Iterable[Flavour]) -> FlavourChanges:
    """The JSON of what documents change of flavours."""
    ledger = context.app.ledger
    known = {each.name: each for each in ledger.flavours()}
    used = Counter(vm.spec.flavour for vm in context.reads.vms())
    used.update(each.spec.desktop.flavour for each in context.reads.pools())
    items: list[FlavourChange] = [
        {
            "name": each.name,
            "new": each.name not in known,
            "changes": list(_changes(known.get(each.name), each)),
            "used": used[each.name],
        }
        for each in wanted
    ]
    count = sum(bool(each["new"] or each["changes"]) for each in items)
    return {"name": "flavours", "changes": count, "flavours": items}


def _changes(before: Flavour | None, after: Flavour) -> Iterable[str]:
    old = {**before.keys, "class": before.host_class or None} if before else {}
    new = {**after.keys, "class": after.host_class or None}
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield f"{key}: {_text(old.get(key))} → {_text(new.get(key))}"


def _text(value: object) -> str:
    from vgpumgr.model.codec import dump

    return "none" if value is None else value if isinstance(value, str) else dump(value)


def apply_flavours(context: CallContext, asked: DocumentText) -> Result[FlavourChanges]:
    """Write down the flavours of documents; what is as they say is left alone."""
    flavours = documents_of(context.app.ledger, asked).flavours
    if not flavours:
        raise UsageError(
            f"{source_name(asked.source)} holds no flavour",
            next="add a document with kind: Flavour",
        )
    changes = flavour_changes(context, flavours)
    for each, change in zip(flavours, changes["flavours"], strict=True):
        if change["new"] or change["changes"]:
            context.app.writable_ledger.set_flavour(each)
    return Result(answer=changes)


LIST_FLAVOURS = Endpoint(
    name="flavour.list",
    method=HttpMethod.GET,
    path="/flavours",
    permission=Permission.VM_PLAN,
    summary="Flavours: sizes of VMs by name.",
    asks=Nothing,
    answers=ItemList[FlavourItem],
    kind="FlavourList",
    work=list_flavours,
    scoped=True,
)
SHOW_FLAVOUR = Endpoint(
    name="flavour.show",
    method=HttpMethod.GET,
    path="/flavours/{name}",
    permission=Permission.VM_PLAN,
    summary="One flavour, and what has it.",
    asks=OneFlavour,
    answers=FlavourItem,
    kind="Flavour",
    work=show_flavour,
    scoped=True,
)
DELETE_FLAVOUR = Endpoint(
    name="flavour.delete",
    method=HttpMethod.DELETE,
    path="/flavours/{name}",
    permission=Permission.FLAVOUR_WRITE,
    summary="Forget a flavour that no VM and no pool has.",
    asks=OneFlavour,
    answers=Done,
    kind="Done",
    work=delete_flavour,
)
APPLY_FLAVOURS = Endpoint(
    name="flavour.apply",
    method=HttpMethod.POST,
    path="/flavours:apply",
    permission=Permission.FLAVOUR_WRITE,
    summary="Write down the flavours of documents.",
    asks=DocumentText,
    answers=FlavourChanges,
    kind="FlavourApply",
    work=apply_flavours,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (
    LIST_FLAVOURS,
    SHOW_FLAVOUR,
    DELETE_FLAVOUR,
    APPLY_FLAVOURS,
)
