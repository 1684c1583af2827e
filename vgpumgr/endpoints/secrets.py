"""The endpoints of secrets: list, show, set, remove. A value comes in, and none ever goes out."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.access import Done
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.endpoints.tags import secret_tag
from vgpumgr.model.errors import NotFound, UsageError
from vgpumgr.model.secret import MAX_SECRET_BYTES, SecretRecord, SecretState, SecretValue, by_secret

if TYPE_CHECKING:
    from vgpumgr.app.secret_store import SecretStore

Value = Annotated[str, ParameterLimits(min_length=1, max_length=MAX_SECRET_BYTES * 4 // 3 + 4)]
Encoding = Literal["text", "base64"]
Key = tuple[str, str]


class SecretItem(TypedDict):
    """A secret of a tenant (``*``: of the fleet) without its value. ``state`` is present, changed,
    missing, unreadable (``why`` says more) or unrecorded; ``source`` file, credential or empty;
    ``users`` are what uses it.
    """

    name: str
    tenant: str
    state: str
    why: str
    source: str
    set_at: Time | None
    set_by: str
    users: list[str]


def list_secrets(context: CallContext, _: Nothing) -> Result[ItemList[SecretItem]]:
    """Every secret of which the ledger knows, or of which there is a value here."""
    return Result(answer={"items": _items(context)})


def _items(context: CallContext, only: Key | None = None) -> list[SecretItem]:
    store, reads = context.app.secrets, context.reads
    records = {(each.tenant, each.name): each for each in reads.secrets()}
    users = by_secret(reads.secret_references())
    here = (each for each in store.names() if each[0] in context.scope)
    found: Iterable[Key] = sorted({*records, *users, *here})
    return [
        _item(store, key, records.get(key), users.get(key, []))
        for key in found
        if only in {None, key}
    ]


def _item(
    store: SecretStore, key: Key, record: SecretRecord | None, users: list[str]
) -> SecretItem:
    tenant, name = key
    state, why = store.state(tenant, name, record)
    source = "credential" if store.is_credential(tenant, name) else "file"
    return {
        "name": name,
        "tenant": tenant,
        "state": state.value,
        "why": why,
        "source": "" if state is SecretState.MISSING else source,
        "set_at": record.set_at if record is not None else None,
        "set_by": record.set_by if record is not None else "",
        "users": users,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSecret:
    """A secret by its tenant and name."""

    tenant: Name
    name: Name


def show_secret(context: CallContext, asked: OneSecret) -> Result[SecretItem]:
    """What is known of a secret, but for its value."""
    return Result(answer=_shown(context, asked.tenant, asked.name))


def _shown(context: CallContext, tenant: str, name: str) -> SecretItem:
    found = _items(context, (tenant, name))
    if not found:
        raise _no_secret(name)
    return found[0]


def _no_secret(name: str) -> NotFound:
    return NotFound(f"no secret {name}", next="vgpumgr secret list")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSecret:
    """A secret and its value, as text or in base64; it is in no answer, record or log."""

    tenant: Name
    name: Name
    value: Value = field(repr=False)
    encoding: Encoding = "text"


def set_secret(context: CallContext, asked: NewSecret) -> Result[SecretItem]:
    """Set a secret, or give it another value; what uses it reads it at its next use."""
    if asked.tenant not in context.scope:
        raise NotFound(f"no tenant {asked.tenant}", next="vgpumgr auth whoami")
    with context.app.secrets.replacing(asked.tenant, asked.name, _value(asked)) as digest:
        context.app.writable_ledger.set_secret(asked.tenant, asked.name, digest)
    return Result(answer=_shown(context, asked.tenant, asked.name))


def _value(asked: NewSecret) -> SecretValue:
    if asked.encoding == "text":
        try:
            return SecretValue(asked.value.encode())
        except UnicodeEncodeError:
            raise UsageError("the value is no text", next="encoding: base64") from None
    try:
        return SecretValue(base64.b64decode(asked.value, validate=True))
    except ValueError:
        raise UsageError("the value is not in base64", next="encoding: text") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRemoval:
    """A secret that goes, with ``force`` even where something uses it."""

    tenant: Name
    name: Name
    force: bool = False


def remove_secret(context: CallContext, asked: SecretRemoval) -> Result[Done]:
    """Remove a secret and its value; InUse where something uses it."""
    if asked.tenant not in context.scope:
        raise _no_secret(asked.name)
    with context.app.secrets.removing(asked.tenant, asked.name) as is_here:
        try:
            ledger = context.app.writable_ledger
            ledger.remove_secret(asked.tenant, asked.name, force=asked.force)
        except NotFound:
            if not is_here:
                raise
    return Result(answer={"name": "removed", "names": [asked.name]})


LIST_SECRETS = Endpoint(
    name="secret.list",
    method=HttpMethod.GET,
    path="/secrets",
    permission=Permission.SECRET_READ,
    summary="Secrets without their values.",
    asks=Nothing,
    answers=ItemList[SecretItem],
    kind="SecretList",
    work=list_secrets,
    scoped=True,
    personal=True,
)
SHOW_SECRET = Endpoint(
    name="secret.show",
    method=HttpMethod.GET,
    path="/secrets/{tenant}/{name}",
    permission=Permission.SECRET_READ,
    summary="A secret without its value: whether there is one, and what uses it.",
    asks=OneSecret,
    answers=SecretItem,
    kind="Secret",
    tag=secret_tag,
    work=show_secret,
    scoped=True,
    personal=True,
)
SET_SECRET = Endpoint(
    name="secret.set",
    method=HttpMethod.PUT,
    path="/secrets/{tenant}/{name}",
    permission=Permission.SECRET_WRITE,
    summary="Set a secret; its value is told in no answer.",
    asks=NewSecret,
    answers=SecretItem,
    kind="Secret",
    tag=secret_tag,
    work=set_secret,
    scoped=True,
    conceals=("value",),
)
REMOVE_SECRET = Endpoint(
    name="secret.remove",
    method=HttpMethod.DELETE,
    path="/secrets/{tenant}/{name}",
    permission=Permission.SECRET_WRITE,
    summary="Remove a secret that nothing uses.",
    asks=SecretRemoval,
    answers=Done,
    kind="Done",
    tag=secret_tag,
    work=remove_secret,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_SECRETS, SHOW_SECRET, SET_SECRET, REMOVE_SECRET)
