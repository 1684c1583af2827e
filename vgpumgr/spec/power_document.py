"""``kind: PowerBudget``: what a site, rack, PDU or host may draw."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from vgpumgr.model.power import PowerBudget, PowerMeter
from vgpumgr.spec.fields import Labels, Name, Strict, refuse

_MOST_WATTS = 1_000_000_000


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_place = parts.port is None or parts.port > 0
    except ValueError:
        is_place = False
    # The simulated service is on this machine's loopback, where no wire carries the password.
    is_near = is_place and parts.scheme == "http" and parts.hostname == "127.0.0.1"
    if (
        not is_place
        or (parts.scheme != "https" and not is_near)
        or not parts.hostname
        or parts.path.strip("/")
        or parts.query
    ):
        refuse("is not a Redfish service: https://HOST or https://HOST:PORT")
    if parts.username or parts.password:
        refuse("holds a user: write user and secret as keys of their own")
    return text


def _digest(text: str) -> str:
    if not re.fullmatch(r"(sha256:)?([0-9a-fA-F]{2}:?){32}", text, re.ASCII):
        refuse("is not a SHA-256: 64 hexadecimal digits")
    return text


class PowerMeterModel(Strict):
    """The Redfish service of the PDU or coolant unit that measures for a budget."""

    url: Annotated[str, Field(max_length=512), AfterValidator(_url)]
    user: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    secret: Name | None = None
    certificate: Annotated[str, AfterValidator(_digest)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> PowerMeterModel:
        if (self.user is None) != (self.secret is None):
            refuse("user and secret go together")
        return self

    def value(self) -> PowerMeter:
        """The meter in the model's words."""
        return PowerMeter(
            url=self.url,
            user=self.user or "",
            secret=self.secret or "",
            certificate=self.certificate or "",
        )


class PowerBudgetModel(Strict):
    """A budget in watts for its hosts and for the budgets whose parent it is."""

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["PowerBudget"]
    name: Name
    watts: int = Field(ge=1, le=_MOST_WATTS)
    parent: Name | None = None
    hosts: list[Name] = Field(default=[], max_length=1000)
    host_labels: Labels | None = Field(default=None, min_length=1)
    host_watts: int | None = Field(default=None, ge=0, le=_MOST_WATTS)
    meter: PowerMeterModel | None = None

    @model_validator(mode="after")
    def _consistent(self) -> PowerBudgetModel:
        if self.parent == self.name:
            refuse("is the budget itself", "parent")
        return self

    def value(self) -> PowerBudget:
        """The budget in the model's words."""
        return PowerBudget(
            name=self.name,
            watts=self.watts,
            parent=self.parent or "",
            hosts=tuple(self.hosts),
            host_labels=dict(self.host_labels or {}),
            host_watts=self.host_watts,
            meter=self.meter.value() if self.meter else None,
        )
