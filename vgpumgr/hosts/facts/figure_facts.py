"""The helper's answer to ``figures``, checked and read into HostFigures; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vgpumgr.helper.figure_table import (
    AER_FIGURES,
    GPU_FIGURES,
    INSTANCE_FIGURES,
    VGPU_FIGURES,
    Figure,
)
from vgpumgr.hosts.facts.gpu_facts import MOST_GPUS, MOST_TYPE_ID
from vgpumgr.hosts.facts.host_facts import unknown_parts
from vgpumgr.hosts.facts.typed_answer import MOST, TypedAnswer
from vgpumgr.model.gpu_figures import Figures, GpuFigures, HostFigures, InstanceFigures, VgpuFigures

# A GPU carries 32 vGPUs at most, a MIG board 56; of NVSwitch boards none is known to have more.
MOST_VGPUS, MOST_INSTANCES, MOST_XID_CODES = 128, 64, 256
_CODE = re.compile(r"[0-9]{1,4}", re.ASCII)
_Limits = Mapping[str, tuple[int, int]]


def _limits(table: Sequence[Figure]) -> _Limits:
    return {each.name: (int(each.least), int(each.most)) for each in table}


_GPU = {**_limits(GPU_FIGURES), **dict.fromkeys(AER_FIGURES, (0, MOST))}
_VGPU, _INSTANCE = _limits(VGPU_FIGURES), _limits(INSTANCE_FIGURES)


def read_figures(answer: Mapping[str, object], host: str) -> HostFigures:
    """What the host measured; names that we do not know are passed over.

    Raises OutcomeUnknown naming the part of the answer that is out of range or form.
    """
    told = TypedAnswer(answer, host=host)
    told.need("gpus")
    gpus = tuple(_gpu(each) for each in told.objects("gpus", most=MOST_GPUS))
    told.once("gpus", (each.address for each in gpus))
    return HostFigures(
        host=host,
        driver=told.maybe_text("driver"),
        hung=told.flag("hung"),
        gpus=gpus,
        unknown=unknown_parts(told),
    )


def _gpu(told: TypedAnswer) -> GpuFigures:
    return GpuFigures(
        address=told.address("address"),
        driver=told.maybe_text("driver"),
        answered=told.flag("answered"),
        uuid=told.maybe_text("uuid"),
        vbios=told.maybe_text("vbios"),
        figures=_figures(told.child("figures"), _GPU),
        vgpus=_vgpus(told) if told.has("vgpus") else None,
        instances=_instances(told) if told.has("instances") else None,
        xids=_xids(told.child("xids")) if told.has("xids") else None,
        last_xid=told.maybe_real("last_xid"),
    )


def _figures(told: TypedAnswer, limits: _Limits) -> Figures:
    return {
        name: told.number(name, least=least, most=most)
        for name, (least, most) in limits.items()
        if told.has(name)
    }


def _vgpus(told: TypedAnswer) -> tuple[VgpuFigures, ...]:
    found = tuple(_vgpu(each) for each in told.objects("vgpus", most=MOST_VGPUS))
    told.once("vgpus", (each.number for each in found))
    return found


def _vgpu(told: TypedAnswer) -> VgpuFigures:
    told.need("number")
    return VgpuFigures(
        number=told.number("number"),
        uuid=told.maybe_text("uuid"),
        mdev=told.maybe_text("mdev"),
        vm=told.maybe_text("vm"),
        type_id=told.maybe_number("type", most=MOST_TYPE_ID),
        instance=told.maybe_number("instance", most=MOST_TYPE_ID),
        placement_id=told.maybe_number("placement_id", most=MOST_TYPE_ID),
        figures=_figures(told.child("figures"), _VGPU),
    )


def _instances(told: TypedAnswer) -> tuple[InstanceFigures, ...]:
    each_of = told.objects("instances", most=MOST_INSTANCES)
    found = tuple(
        InstanceFigures(
            id=each.number("id", most=MOST_TYPE_ID),
            figures=_figures(each.child("figures"), _INSTANCE),
        )
        for each in each_of
    )
    told.once("instances", (each.id for each in found))
    return found


def _xids(told: TypedAnswer) -> Mapping[str, int]:
    found = {}
    for code in told.names(most=MOST_XID_CODES):
        if _CODE.fullmatch(code) is None:
            raise told.nonsense(code, code, "an Xid's number")
        found[code] = told.number(code)
    return found
