"""The endpoint of settings: what the controller runs with, without any secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.shapes import ItemList, Nothing

if TYPE_CHECKING:
    from vgpumgr.app.config import Config


class SettingItem(TypedDict):
    """A setting as text (empty: none), ``default`` where nothing else was said."""

    name: str
    value: str
    default: bool


def show_settings(context: CallContext, _: Nothing) -> Result[ItemList[SettingItem]]:
    """Every setting. Secrets are in files, of which the paths are told."""
    return Result(answer={"items": setting_items(context.app.config)})


def setting_items(config: Config) -> list[SettingItem]:
    """The JSON of settings."""
    return [
        {
            "name": each.name,
            "value": _text(each.name, value),
            "default": value == each.default,
        }
        for each in fields(config)
        for value in (getattr(config, each.name),)
    ]


def _text(name: str, value: Any) -> str:
    if name == "ledger":
        return without_password(value)
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " ".join(value)
    return str(getattr(value, "text", value))


def without_password(ledger: str) -> str:
    """A ledger's place: of an address its user, host and database alone."""
    if "://" not in ledger:
        return ledger
    parts = urlsplit(ledger)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}"


SHOW_SETTINGS = Endpoint(
    name="settings.show",
    method=HttpMethod.GET,
    path="/settings",
    permission=Permission.STORE_ADMIN,
    summary="The settings that the controller runs with.",
    asks=Nothing,
    answers=ItemList[SettingItem],
    kind="SettingList",
    work=show_settings,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (SHOW_SETTINGS,)
