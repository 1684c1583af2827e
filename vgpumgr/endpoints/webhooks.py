"""The endpoints of webhooks: where records of the trail are sent to as they are written."""

from __future__ import annotations

import re
import secrets
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.audit.event_classes import EVENT_CLASSES
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import AccessRefused, HostUnreachable, NotFound, UsageError
from vgpumgr.model.history import AuditRecord
from vgpumgr.model.role_binding import EVERY_TENANT, Scope
from vgpumgr.model.vm import NAME
from vgpumgr.model.webhook import Webhook

WebhookName = Annotated[str, ParameterLimits(min_length=1, max_length=63, pattern=f"^{NAME}$")]
Tenant = Annotated[str, ParameterLimits(max_length=63, pattern=rf"^({NAME}|\*|)$")]
EventKinds = Annotated[
    tuple[Annotated[str, ParameterLimits(max_length=63, pattern=r"^[a-z][a-z.-]*$")], ...],
    ParameterLimits(max_length=32),
]
KEPT_H, MOST_KEPT_H = 24, 24 * 30
"""How long an old secret signs too, in hours."""
PING = "webhook.test"
"""The kind of the message that ``webhook test`` sends; no record of the trail has it."""


class WebhookItem(TypedDict):
    """A webhook: ``state`` is active, failing (tried again at ``retry_at``) or paused, ``why`` the
    reason. ``cursor`` is the ``seq`` up to which it has been sent all, ``behind`` how far the trail
    has gone on since.
    """

    name: str
    id: str
    tenant: str
    url: str
    events: list[str]
    state: str
    why: str
    failures: int
    retry_at: Time | None
    paused_at: Time | None
    delivered_at: Time | None
    cursor: int
    behind: int
    created_at: Time
    created_by: str


class NewWebhook(WebhookItem):
    """A webhook with the secret that signs, which is shown this once."""

    secret: str


class WebhookAnswer(TypedDict):
    """What the receiver said: ``taken`` tells whether it took the message."""

    name: str
    taken: bool
    answer: str


def _item(webhook: Webhook, end: int) -> WebhookItem:
    state = "paused" if webhook.paused_at else "failing" if webhook.failures else "active"
    item: Any = {"name": webhook.name, **to_plain(webhook)}
    item |= {"state": state, "behind": max(0, end - webhook.cursor)}
    found: WebhookItem = item
    return found


def _items(context: CallContext) -> list[WebhookItem]:
    end = context.app.ledger.trail_since(None).end
    return [_item(each, end) for each in context.reads.webhooks()]


def _one(context: CallContext, name: str) -> Webhook:
    for each in context.reads.webhooks():
        if each.name == name:
            return each
    raise NotFound(f"no webhook {name}", next="vgpumgr webhook list")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWebhook:
    """A webhook by its name."""

    name: Name


def _shown(context: CallContext, name: str) -> Result[WebhookItem]:
    return Result(answer=_item(_one(context, name), context.app.ledger.trail_since(None).end))


def list_webhooks(context: CallContext, _: Nothing) -> Result[ItemList[WebhookItem]]:
    """The webhooks of the tenants that the caller may see."""
    return Result(answer={"items": _items(context)})


def show_webhook(context: CallContext, asked: OneWebhook) -> Result[WebhookItem]:
    """One of them."""
    return _shown(context, asked.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWebhook:
    """Records of a tenant's things (``*``: of all; without one of the caller's) whose kinds begin
    with one of ``events`` (none: all records) are sent to ``url``.
    """

    name: WebhookName
    url: Annotated[str, ParameterLimits(min_length=1, max_length=1000)]
    events: EventKinds = ()
    tenant: Tenant = ""


def add_webhook(context: CallContext, asked: AddWebhook) -> Result[NewWebhook]:
    """A new webhook with its secret; it is sent what is written from now on."""
    from vgpumgr.app.webhooks.delivery_schedule import webhook_secrets
    from vgpumgr.app.webhooks.receiver_address import ReceiverRules
    from vgpumgr.app.webhooks.signed_message import new_secret

    config = context.app.config
    _refuse_unknown(asked)
    tenant = _tenant(context, asked.tenant)
    ReceiverRules(config.webhook_networks).place(asked.url)
    made = Webhook(
        id=str(uuid.uuid4()), name=asked.name, url=asked.url, tenant=tenant, events=asked.events
    )
    kept, secret = webhook_secrets(config), new_secret()
    kept.keep(made.id, secret)
    try:
        context.app.writable_ledger.add_webhook(made)
    except BaseException:
        kept.forget(made.id)
        raise
    answer: NewWebhook = {**_shown(context, asked.name).answer, "secret": secret}
    said = f"the receiver needs the secret; vgpumgr webhook test {asked.name} tries it"
    return Result(answer=answer, notes=(said,))


def _refuse_unknown(asked: AddWebhook) -> None:
    if not re.fullmatch(NAME, asked.name):
        raise UsageError(
            f"{asked.name!r:.80} is no name of a webhook", next="small letters, digits and -"
        )
    for each in asked.events:
        if not any(kind.startswith(each) for kind in EVENT_CLASSES):
            raise UsageError(
                f"no record is of a kind that begins with {each!r:.80}",
                next="vgpumgr audit list shows kinds; like vm. or operation.failed",
            )


def _tenant(context: CallContext, asked: str) -> str:
    """The tenant that is asked for, or the only one of the caller."""
    mine = context.scope.tenants
    tenant = asked or (EVERY_TENANT if mine is None else next(iter(mine), ""))
    if not asked and mine is not None and len(mine) != 1:
        raise UsageError("a tenant has to be named", next="--tenant TENANT")
    if tenant != EVERY_TENANT and not re.fullmatch(NAME, tenant):
        raise UsageError(f"{tenant!r:.80} is no tenant's name", next="small letters, digits and -")
    if not Scope.of(tenant) <= context.scope:
        where = "all tenants" if tenant == EVERY_TENANT else f"tenant {tenant}"
        raise AccessRefused(
            f"a webhook for {where} needs {Permission.WEBHOOK_WRITE} there",
            next="vgpumgr auth whoami; an administrator can grant more",
        )
    return tenant


class WebhookGone(TypedDict):
    """A webhook that was removed."""

    name: str


def remove_webhook(context: CallContext, asked: OneWebhook) -> Result[WebhookGone]:
    """Send nothing more to it, and forget its secret."""
    from vgpumgr.app.webhooks.delivery_schedule import webhook_secrets

    found = _one(context, asked.name)
    context.app.writable_ledger.remove_webhook(found.id)
    webhook_secrets(context.app.config).forget(found.id)
    return Result(answer={"name": found.name})


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseWebhook:
    """A webhook by its name, and why nothing is to be sent to it."""

    name: Name
    why: Annotated[str, ParameterLimits(max_length=200)] = ""


def pause_webhook(context: CallContext, asked: PauseWebhook) -> Result[WebhookItem]:
    """Send nothing to it until it is resumed."""
    found = _one(context, asked.name)
    by = f"paused by {context.who.principal.user}"
    why = f"{by}: {asked.why}" if asked.why else by
    context.app.writable_ledger.pause_webhook(found.id, why)
    return _shown(context, asked.name)


def resume_webhook(context: CallContext, asked: OneWebhook) -> Result[WebhookItem]:
    """Send to it again, from where it was; one that fails is tried at once."""
    found = _one(context, asked.name)
    context.app.writable_ledger.resume_webhook(found.id)
    return _shown(context, asked.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateWebhook:
    """A webhook by its name; for ``keep_h`` hours messages are signed by its old secret, too."""

    name: Name
    keep_h: Annotated[int, ParameterLimits(ge=0, le=MOST_KEPT_H)] = KEPT_H


def rotate_webhook(context: CallContext, asked: RotateWebhook) -> Result[NewWebhook]:
    """The webhook with a new secret. Messages have a signature by each for a while, so that a
    receiver takes them before it has the new one, and after.
    """
    from vgpumgr.app.webhooks.delivery_schedule import webhook_secrets
    from vgpumgr.app.webhooks.signed_message import new_secret

    found, secret = _one(context, asked.name), new_secret()
    until = time.time() + asked.keep_h * 3600
    undo = webhook_secrets(context.app.config).rotate(found.id, secret, until)
    try:
        context.app.writable_ledger.webhook_rotated(found.id)
    except BaseException:
        undo()
        raise
    answer: NewWebhook = {**_shown(context, asked.name).answer, "secret": secret}
    said = "the old secret signs no more; the receiver needs the new one now"
    if asked.keep_h:
        said = f"for {asked.keep_h} h the old secret signs too; give the receiver the new one"
    return Result(answer=answer, notes=(said,))


def test_webhook(context: CallContext, asked: OneWebhook) -> Result[WebhookAnswer]:
    """Send one signed message now, whatever its state."""
    from vgpumgr.app.webhooks.delivery_schedule import message_sender
    from vgpumgr.app.webhooks.receiver import NotTaken

    found = _one(context, asked.name)
    app, user = context.app, context.who.principal.user
    ping = AuditRecord(
        seq=0, at=time.time(), by=user, event=PING, detail=f"a test of {found.name} by {user}"
    )
    sender = message_sender(app.ledger, app.config)
    try:
        status = sender.send(found, ping, f"test-{secrets.token_hex(8)}")
    except NotTaken as error:
        failed = HostUnreachable(
            f"the receiver of webhook {found.name} did not take the message",
            why=str(error),
            next=f"vgpumgr webhook show {found.name}",
        )
        answer: WebhookAnswer = {"name": found.name, "taken": False, "answer": str(error)}
        return Result(answer=answer, error=failed)
    return Result(answer={"name": found.name, "taken": True, "answer": f"HTTP {status}"})


def _endpoint(
    verb: str, method: HttpMethod, path: str, needs: Permission, **more: Any
) -> Endpoint[Any, Any]:
    return Endpoint(
        name=f"webhook.{verb}",
        method=method,
        path=f"/webhooks{path}",
        permission=needs,
        scoped=True,
        **more,
    )


LIST_WEBHOOKS = _endpoint(
    *("list", HttpMethod.GET, "", Permission.WEBHOOK_READ),
    summary="Webhooks, by name.",
    asks=Nothing,
    answers=ItemList[WebhookItem],
    kind="WebhookList",
    work=list_webhooks,
)
SHOW_WEBHOOK = _endpoint(
    *("show", HttpMethod.GET, "/{name}", Permission.WEBHOOK_READ),
    summary="A webhook: its state, and how far it has come.",
    asks=OneWebhook,
    answers=WebhookItem,
    kind="Webhook",
    work=show_webhook,
)
ADD_WEBHOOK = _endpoint(
    *("add", HttpMethod.POST, "", Permission.WEBHOOK_WRITE),
    summary="Send records of the trail to a URL; the secret that signs is in this answer alone.",
    asks=AddWebhook,
    answers=NewWebhook,
    kind="NewWebhook",
    work=add_webhook,
    secret=True,
)
REMOVE_WEBHOOK = _endpoint(
    *("remove", HttpMethod.DELETE, "/{name}", Permission.WEBHOOK_WRITE),
    summary="Remove a webhook and its secret.",
    asks=OneWebhook,
    answers=WebhookGone,
    kind="WebhookGone",
    work=remove_webhook,
)
PAUSE_WEBHOOK = _endpoint(
    *("pause", HttpMethod.POST, "/{name}:pause", Permission.WEBHOOK_WRITE),
    summary="Send nothing to a webhook until it is resumed.",
    asks=PauseWebhook,
    answers=WebhookItem,
    kind="Webhook",
    work=pause_webhook,
)
RESUME_WEBHOOK = _endpoint(
    *("resume", HttpMethod.POST, "/{name}:resume", Permission.WEBHOOK_WRITE),
    summary="Send to a webhook again, from where it was.",
    asks=OneWebhook,
    answers=WebhookItem,
    kind="Webhook",
    work=resume_webhook,
)
ROTATE_WEBHOOK = _endpoint(
    *("rotate", HttpMethod.POST, "/{name}:rotate", Permission.WEBHOOK_WRITE),
    summary="Give a webhook a new secret, told in this answer alone; the old one signs on a while.",
    asks=RotateWebhook,
    answers=NewWebhook,
    kind="NewWebhook",
    work=rotate_webhook,
    secret=True,
)
TEST_WEBHOOK = _endpoint(
    *("test", HttpMethod.POST, "/{name}:test", Permission.WEBHOOK_WRITE),
    summary="Send a webhook one signed message, and say what its receiver answers.",
    asks=OneWebhook,
    answers=WebhookAnswer,
    kind="WebhookAnswer",
    work=test_webhook,
    runs=Runs.WORKER,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (
    *(LIST_WEBHOOKS, SHOW_WEBHOOK, ADD_WEBHOOK, REMOVE_WEBHOOK),
    *(PAUSE_WEBHOOK, RESUME_WEBHOOK, ROTATE_WEBHOOK, TEST_WEBHOOK),
)
