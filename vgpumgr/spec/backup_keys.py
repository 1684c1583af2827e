"""``backup:`` of VMs: how each is backed up by itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from vgpumgr.model.vm_backup import LEAST_EVERY_S, MOST_KEPT, OwnBackups, RetentionRules
from vgpumgr.spec.fields import Duration, Name, Strict, refuse, seconds

_Kept = Annotated[int, Field(ge=0, le=MOST_KEPT)]


class BackupModel(Strict):
    """The target, the time between two backups, and which of them are kept."""

    target: Name
    every: Duration
    last: _Kept = 0
    daily: _Kept = 0
    weekly: _Kept = 0

    @model_validator(mode="after")
    def _not_too_often(self) -> BackupModel:
        if seconds(self.every) < LEAST_EVERY_S:
            refuse("must be a minute or longer", "every")
        return self

    def value(self) -> OwnBackups:
        """The same in the model's words."""
        keep = RetentionRules(last=self.last, daily=self.daily, weekly=self.weekly)
        return OwnBackups(target=self.target, every_s=float(seconds(self.every)), keep=keep)
