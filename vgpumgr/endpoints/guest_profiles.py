"""The endpoints of guest profiles: which there are, and what one of them does and takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing


class GuestParameterItem(TypedDict):
    """A parameter of a guest profile; ``secret``: its value is the name of a secret."""

    name: str
    text: str
    default: str
    choices: list[str]
    required: bool
    secret: bool


class GuestCheckItem(TypedDict):
    """A check that the guest's agent runs, and why the guest is not ready where it fails."""

    name: str
    run: list[str]
    says: str


class GuestProfileItem(TypedDict):
    """A guest profile: ``systems`` are the distributions that it is for, or windows; ``needs`` the
    keys that the VM's file must have.
    """

    name: str
    title: str
    systems: list[str]
    needs: list[str]
    repeats: bool
    packages: list[str]
    parameters: list[GuestParameterItem]
    checks: list[GuestCheckItem]


def _item(name: str) -> GuestProfileItem:
    from vgpumgr import guests

    found = guests.profile(name)
    packages = found.cloud_config.get("packages", [])
    return {
        "name": found.name,
        "title": found.title,
        "systems": list(found.systems),
        "needs": list(found.needs),
        "repeats": found.repeats,
        "packages": [each if isinstance(each, str) else each["item"] for each in packages],
        "parameters": [
            {
                "name": parameter,
                "text": about.text,
                "default": about.default,
                "choices": list(about.choices),
                "required": about.required,
                "secret": about.secret,
            }
            for parameter, about in found.parameters.items()
        ],
        "checks": [
            {"name": each.name, "run": list(each.run), "says": each.says} for each in found.checks
        ],
    }


def list_guest_profiles(_: CallContext, __: Nothing) -> Result[ItemList[GuestProfileItem]]:
    """Every guest profile."""
    from vgpumgr import guests

    return Result(answer={"items": [_item(name) for name in guests.profiles()]})


@dataclass(frozen=True, slots=True, kw_only=True)
class OneGuestProfile:
    """A guest profile by its name."""

    name: Name


def show_guest_profile(_: CallContext, asked: OneGuestProfile) -> Result[GuestProfileItem]:
    """One guest profile; NotFound."""
    from vgpumgr import guests
    from vgpumgr.store.database.faults import not_found

    if asked.name not in guests.profiles():
        raise not_found("guest-profile", asked.name, guests.profiles())
    return Result(answer=_item(asked.name))


LIST_GUEST_PROFILES = Endpoint(
    name="guest-profile.list",
    method=HttpMethod.GET,
    path="/guest-profiles",
    permission=Permission.VM_PLAN,
    summary="Guest profiles: software for guests, with its checks.",
    asks=Nothing,
    answers=ItemList[GuestProfileItem],
    kind="GuestProfileList",
    work=list_guest_profiles,
    scoped=True,
)
SHOW_GUEST_PROFILE = Endpoint(
    name="guest-profile.show",
    method=HttpMethod.GET,
    path="/guest-profiles/{name}",
    permission=Permission.VM_PLAN,
    summary="One guest profile: its parameters, packages and checks.",
    asks=OneGuestProfile,
    answers=GuestProfileItem,
    kind="GuestProfile",
    work=show_guest_profile,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_GUEST_PROFILES, SHOW_GUEST_PROFILE)
