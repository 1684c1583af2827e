"""Parts of a pool: who may use it, how an image comes, what heals."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from vgpumgr.model.pool import MAX_DESKTOPS, Autoheal, Entitlement, Naming, UpdatePolicy, UpdateWhen
from vgpumgr.model.vm import NAME
from vgpumgr.spec.durations import Duration, seconds
from vgpumgr.spec.fields import Line, Strict, refuse

_IMAGE = rf"{NAME}@[A-Za-z0-9][A-Za-z0-9._-]{{0,62}}"


def is_image(text: str) -> bool:
    """Whether it is an image with its version: ``cad@12``."""
    return re.fullmatch(_IMAGE, text) is not None


def _image(text: str) -> str:
    if not is_image(text):
        refuse("is not an image with its version: write one like cad@12")
    return text


def _naming(text: str) -> str:
    naming = Naming.parse(text)
    if naming is None or re.fullmatch(NAME, naming.name(1)) is None:
        refuse("is not a pattern of names: write one like cad-{n} or cad-{n:3}")
    return text


Image = Annotated[str, AfterValidator(_image), Field(json_schema_extra={"pattern": f"^{_IMAGE}$"})]
NamePattern = Annotated[
    str,
    AfterValidator(_naming),
    Field(json_schema_extra={"pattern": r"^[a-z0-9-]*\{n(:[1-5])?\}[a-z0-9-]*$"}),
]


class EntitlementModel(Strict):
    """Users and groups who may have a desktop."""

    users: list[Line] = Field(default=[], max_length=10_000)
    groups: list[Line] = Field(default=[], max_length=1000)
    per_user: int = Field(default=1, ge=1, le=100)

    @model_validator(mode="after")
    def _somebody(self) -> EntitlementModel:
        if not self.users and not self.groups:
            refuse("entitles nobody: name users or groups")
        return self

    def value(self) -> Entitlement:
        """The entitlement in the model's words."""
        return Entitlement(
            users=frozenset(self.users), groups=frozenset(self.groups), per_user=self.per_user
        )


class UpdateModel(Strict):
    """How a new image comes to the pool's desktops."""

    when: Literal["at-logoff", "at-once"] = "at-logoff"
    step: int = Field(default=5, ge=1, le=MAX_DESKTOPS)
    min_ready: int | None = Field(default=None, ge=0, le=MAX_DESKTOPS)
    soak: Duration = "5m"
    max_failures: int = Field(default=1, ge=1, le=MAX_DESKTOPS)
    rollback: bool = True

    def value(self) -> UpdatePolicy:
        """The policy in the model's words."""
        return UpdatePolicy(
            when=UpdateWhen(self.when),
            step=self.step,
            min_ready=self.min_ready,
            soak_s=float(seconds(self.soak)),
            max_failures=self.max_failures,
            rollback=self.rollback,
        )


class AutohealModel(Strict):
    """When a broken desktop is recreated, and how often."""

    after: Duration = "1m"
    attempts: int = Field(default=5, ge=0, le=100)

    def value(self) -> Autoheal:
        """The terms in the model's words."""
        return Autoheal(after_s=float(seconds(self.after)), attempts=self.attempts)


def _said(value: object) -> object:
    """``true`` is a mapping with nothing in it, ``false`` means never."""
    if isinstance(value, bool):
        return {} if value else {"attempts": 0}
    return value


AutohealField = Annotated[
    AutohealModel, BeforeValidator(_said, json_schema_input_type=bool | AutohealModel)
]
