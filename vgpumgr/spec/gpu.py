"""``gpus:`` of a VM: what it asks for, by name or by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from vgpumgr import catalog
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.size import parse_mib
from vgpumgr.model.vm import GpuRequest
from vgpumgr.spec.fields import Line, Memory, Strict, refuse

MAX_GPUS = 16
_ANY = "any"
# A whole GPU and a plain VF are no vGPU: they have neither a display nor a limiter of the host's.
_NO_VGPU = {"passthrough", "pci-vf"}


def _known_profile(name: str, info: ValidationInfo) -> str:
    profile = catalog.normalise(name)
    learned: frozenset[str] = (info.context or {}).get("profiles", frozenset())
    if profile not in catalog.profiles() and profile not in learned:
        raise PydanticCustomError("unknown_profile", "unknown profile")
    return profile


class GpuModel(Strict):
    """GPU parts of one profile or of one size, optionally only on one board."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["profile"]}, {"required": ["memory"]}]}
    )

    profile: Annotated[Line, AfterValidator(_known_profile)] | None = None
    memory: Memory | None = None
    framework: Literal["any", "passthrough", "mdev", "vfio-vf", "pci-vf"] = "any"
    frame_rate_limiter: bool | None = None
    count: int = Field(default=1, ge=1, le=MAX_GPUS)
    model: Line | Annotated[list[Line], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> GpuModel:
        if (self.profile is None) == (self.memory is None):
            refuse("needs exactly one of profile and memory")
        implied = self._implied_framework()
        if implied and self.framework not in {implied, _ANY}:
            refuse(f"profile {self.profile} is always {implied}: leave it out", "framework")
        if self.frame_rate_limiter is not None and not self.may_be_vgpu():
            refuse("only a vGPU has one: leave it out", "frame_rate_limiter")
        return self

    def may_be_vgpu(self) -> bool:
        """Whether it is a vGPU, or could become one by placement's choice."""
        return (self._implied_framework() or self.framework) not in _NO_VGPU

    def _implied_framework(self) -> str:
        """The framework that the profile's name alone decides, else nothing."""
        if self.profile == PASSTHROUGH_PROFILE:
            return "passthrough"
        if self.profile and catalog.parse_vf_profile(self.profile):
            return "pci-vf"
        return ""

    def value(self) -> GpuRequest:
        """The request in the model's words."""
        named = [self.model] if isinstance(self.model, str) else self.model or []
        models = tuple(dict.fromkeys(named))
        return GpuRequest(
            profile=self.profile or "",
            count=self.count,
            model=models[0] if len(models) == 1 else None,
            models=models if len(models) > 1 else (),
            memory_mib=parse_mib(self.memory) if self.memory else None,
            framework=None if self.framework == _ANY else self.framework,
            frame_rate_limiter=self.frame_rate_limiter,
        )


def check_gpus(gpus: Sequence[GpuModel], *, display: bool) -> None:
    """Refuse more GPU parts than a VM takes, and a display that none of them could have."""
    if sum(each.count for each in gpus) > MAX_GPUS:
        refuse(f"a VM takes at most {MAX_GPUS} GPUs in all", "gpus")
    if display and not any(each.may_be_vgpu() for each in gpus):
        refuse("needs at least one vGPU: a display is a vGPU's, not a whole GPU's", "display")
