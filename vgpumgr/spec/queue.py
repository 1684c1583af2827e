"""``queue:`` of a VM: it waits where there is no room for it, and on what terms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from vgpumgr.model.terms import PRIORITIES, Terms
from vgpumgr.spec.durations import Duration, seconds
from vgpumgr.spec.fields import Name, Strict, refuse

_HIGHEST = 1000


def _number(value: object) -> object:
    """``high`` → 100; a number is one."""
    if isinstance(value, str) and value in PRIORITIES:
        return PRIORITIES[value]
    if isinstance(value, bool) or not isinstance(value, int):
        refuse(f"must be {', '.join(PRIORITIES)} or a whole number")
    return value


Priority = Annotated[
    int,
    BeforeValidator(_number, json_schema_input_type=Literal["high", "normal", "low"] | int),
    Field(ge=-_HIGHEST, le=_HIGHEST),
]


class QueueModel(Strict):
    """The terms on which a VM waits and runs."""

    priority: Priority = 0
    spot: bool = False
    runtime: Duration | None = None
    after: list[Name] = Field(default=[], max_length=64)
    together: bool = False
    await_hosts: bool = False

    def value(self, document: str) -> Terms:
        """The terms in the model's words; replicas of one ``document`` start together."""
        return Terms(
            priority=self.priority,
            spot=self.spot,
            runtime_s=float(seconds(self.runtime)) if self.runtime else None,
            after=tuple(dict.fromkeys(self.after)),
            together=document if self.together else "",
            await_hosts=self.await_hosts,
        )


def _said(value: object) -> object:
    """``true`` is a mapping with nothing in it, ``false`` none at all."""
    if isinstance(value, bool):
        return {} if value else None
    return value


QueueField = Annotated[
    QueueModel | None, BeforeValidator(_said, json_schema_input_type=bool | QueueModel)
]
