"""``scale:`` of pools and of replicas: the metrics by which there are more of them, or fewer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from vgpumgr.model.load_scale import (
    GroupScale,
    LoadMetric,
    ScalePolicy,
    ScaleTrigger,
)
from vgpumgr.spec.fields import MAX_REPLICAS, Duration, Percent, Strict, refuse, seconds, share

# Loads are kept in memory.
_LONGEST_S = 86_400


class TriggerModel(Strict):
    """A metric of a pool's desktops, and the mean above which there are too few of them."""

    metric: Literal["gpu", "engine", "encoder", "decoder", "framebuffer", "sessions"]
    threshold: Percent

    def value(self) -> ScaleTrigger:
        """The trigger in the model's words."""
        return ScaleTrigger(metric=LoadMetric(self.metric), threshold=share(self.threshold))


class ScaleModel(Strict):
    """Metrics by which a pool grows and shrinks, between its ``min`` and ``max``."""

    triggers: list[TriggerModel] = Field(min_length=1, max_length=5)
    sustained: Duration = "5m"
    cooldown: Duration = "10m"

    @model_validator(mode="after")
    def _consistent(self) -> ScaleModel:
        metrics = [each.metric for each in self.triggers]
        for number, metric in enumerate(metrics):
            if metric in metrics[:number]:
                refuse(f"{metric} has a trigger already", "triggers", number, "metric")
        for name in ("sustained", "cooldown"):
            if seconds(getattr(self, name)) > _LONGEST_S:
                refuse("is longer than a day: loads are not kept for longer", name)
        return self

    def refuse_measured(self, why: str) -> None:
        """Refuse each metric that hosts measure."""
        for number, each in enumerate(self.triggers):
            if LoadMetric(each.metric).measured:
                refuse(why, "scale", "triggers", number, "metric")

    def policy(self) -> ScalePolicy:
        """The policy in the model's words."""
        return ScalePolicy(
            triggers=tuple(each.value() for each in self.triggers),
            sustained_s=float(seconds(self.sustained)),
            cooldown_s=float(seconds(self.cooldown)),
        )


class GroupTriggerModel(TriggerModel):
    """A metric of replicas' vGPUs, and the mean above which there are too few of them."""

    metric: Literal["gpu", "engine", "encoder", "decoder", "framebuffer"]


class GroupScaleModel(ScaleModel):
    """Metrics by which there are more replicas or fewer, between ``min`` and ``max``."""

    triggers: list[GroupTriggerModel] = Field(min_length=1, max_length=5)  # type: ignore[assignment]
    min: int = Field(default=1, ge=1, le=MAX_REPLICAS)
    max: int = Field(ge=1, le=MAX_REPLICAS)

    @model_validator(mode="after")
    def _bounded(self) -> GroupScaleModel:
        if self.min > self.max:
            refuse(f"{self.min} is more than max: {self.max}", "min")
        return self

    def value(self, group: str) -> GroupScale:
        """The terms in the model's words."""
        return GroupScale(group=group, least=self.min, most=self.max, policy=self.policy())
