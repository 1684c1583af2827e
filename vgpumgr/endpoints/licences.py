"""The endpoints of licences: the seats of each edition that are declared, and that VMs take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.shapes import ItemList, Nothing
from vgpumgr.model.licence import MOST_SEATS, Edition, Licence, seats_taken

EditionName = Literal["vapps", "vpc", "vws", "nvaie"]


class LicenceItem(TypedDict):
    """An edition: ``seats`` are declared, ``left`` are taken by no VM (null: none are declared, and
    VMs are not limited). ``used`` counts VMs that hold a vGPU of its ``series``.
    """

    name: str
    product: str
    series: str
    seats: int | None
    used: int
    left: int | None


def licence_items(context: CallContext) -> list[LicenceItem]:
    """Every edition: seats are of the fleet, not of a tenant."""
    ledger = context.app.ledger
    declared = {each.edition: each.seats for each in ledger.licences()}
    used = seats_taken((each.vm_id, each.profile) for each in ledger.allocations())
    return [_item(each, declared.get(each), used[each]) for each in Edition]


def _item(edition: Edition, seats: int | None, used: int) -> LicenceItem:
    return {
        "name": edition.value,
        "product": edition.product,
        "series": edition.series,
        "seats": seats,
        "used": used,
        "left": None if seats is None else max(0, seats - used),
    }


def list_licences(context: CallContext, _: Nothing) -> Result[ItemList[LicenceItem]]:
    """Every edition, whether its seats are declared or not."""
    items = licence_items(context)
    open_ = [each["name"] for each in items if each["seats"] is None and each["used"]]
    said = f"not declared, and so not limited: {', '.join(open_)}; vgpumgr licence set EDITION"
    return Result(answer={"items": items}, notes=(f"{said} --seats N",) if open_ else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLicence:
    """An edition, and how many seats the licence server has of it."""

    edition: EditionName
    seats: Annotated[int, ParameterLimits(ge=0, le=MOST_SEATS)]


def set_licence(context: CallContext, asked: SetLicence) -> Result[ItemList[LicenceItem]]:
    """Declare its seats; VMs that take more keep them. Answers with the edition."""
    edition = Edition(asked.edition)
    context.app.writable_ledger.set_licence(Licence(edition=edition, seats=asked.seats))
    [item] = [each for each in licence_items(context) if each["name"] == edition]
    beyond = item["used"] - asked.seats
    notes = (f"{beyond} more are taken already: nothing is stopped",) if beyond > 0 else ()
    return Result(answer={"items": [item]}, notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneEdition:
    """An edition by its name."""

    edition: EditionName


class EditionItem(TypedDict):
    """An edition."""

    name: str


def delete_licence(context: CallContext, asked: OneEdition) -> Result[EditionItem]:
    """Count its seats no more; NotFound where none are declared."""
    context.app.writable_ledger.delete_licence(Edition(asked.edition))
    return Result(answer={"name": asked.edition})


LIST_LICENCES = Endpoint(
    name="licence.list",
    method=HttpMethod.GET,
    path="/licences",
    permission=Permission.FLEET_READ,
    summary="Licence seats by edition: declared, taken and left.",
    asks=Nothing,
    answers=ItemList[LicenceItem],
    kind="LicenceList",
    work=list_licences,
    scoped=True,
)
SET_LICENCE = Endpoint(
    name="licence.set",
    method=HttpMethod.PUT,
    path="/licences/{edition}",
    permission=Permission.QUOTA_WRITE,
    summary="Declare how many seats there are of an edition.",
    asks=SetLicence,
    answers=ItemList[LicenceItem],
    kind="LicenceList",
    work=set_licence,
)
DELETE_LICENCE = Endpoint(
    name="licence.delete",
    method=HttpMethod.DELETE,
    path="/licences/{edition}",
    permission=Permission.QUOTA_WRITE,
    summary="Count the seats of an edition no more.",
    asks=OneEdition,
    answers=EditionItem,
    kind="Edition",
    work=delete_licence,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_LICENCES, SET_LICENCE, DELETE_LICENCE)
