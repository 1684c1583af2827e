"""``kind: Notification``: which records of the trail are told by mail, to whom, and when."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from vgpumgr.model.notification import NotificationRule, Severity, is_mail_address
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.webhook import MOST_WEBHOOKS
from vgpumgr.spec.fields import Duration, Line, Name, Strict, refuse, seconds
from vgpumgr.spec.pool_document import HoursModel, Zone
from vgpumgr.spec.single_kind import load_documents

MOST_ADDRESSES = 50
_KIND = re.compile(r"[a-z]+(\.[a-z-]*)?")


def _address(text: str) -> str:
    if not is_mail_address(text):
        refuse("is not a mail address, like ops@example.com")
    return text


def _kind(text: str) -> str:
    if not _KIND.fullmatch(text):
        refuse("is not a kind of record or the beginning of one, like notice. or operation.failed")
    return text


class NotificationModel(Strict):
    """A rule: what is told to whom."""

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["Notification"]
    name: Name
    to: list[Annotated[Line, AfterValidator(_address)]] = Field(
        default=[], max_length=MOST_ADDRESSES
    )
    webhooks: list[Line] = Field(default=[], max_length=MOST_WEBHOOKS)
    events: list[Annotated[Line, AfterValidator(_kind)]] = Field(default=[], max_length=100)
    severity: Literal["info", "warning", "critical"] = "warning"
    digest: Duration = "1m"
    every: Duration = "15m"
    quiet: list[HoursModel] = Field(default=[], max_length=64)
    time_zone: Zone = "UTC"
    holidays: Name | None = None
    tenant: Name | None = None

    @model_validator(mode="after")
    def _told_to(self) -> NotificationModel:
        if not self.to and not self.webhooks:
            refuse("tells no address and no webhook: name one of them", "to")
        return self

    def value(self) -> NotificationRule:
        """The rule in the model's words."""
        return NotificationRule(
            name=self.name,
            to=tuple(dict.fromkeys(self.to)),
            webhooks=tuple(dict.fromkeys(self.webhooks)),
            events=tuple(dict.fromkeys(self.events)),
            severity=Severity(self.severity),
            digest_s=seconds(self.digest),
            every_s=seconds(self.every),
            quiet=tuple(each.hours() for each in self.quiet),
            zone=self.time_zone,
            holidays=self.holidays or "",
            tenant=self.tenant or EVERY_TENANT,
        )


def load_notifications(data: bytes | str, source: str) -> tuple[NotificationRule, ...]:
    """The rules of a file; ``source`` is its name in messages. SpecError with every problem
    found.
    """
    model = NotificationModel
    return load_documents(data, source, model, model.value, lambda it: it.name)
