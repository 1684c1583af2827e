"""What the vGPUs of each VM do, for pools that count on it."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.gpu_figures import Figures
from vgpumgr.model.host_sample import FleetSample
from vgpumgr.model.load_scale import VmLoad
from vgpumgr.model.pool import PoolSpec
from vgpumgr.telemetry.current_figures import CurrentGpu, current_gpus
from vgpumgr.telemetry.fleet_frame import HostFrame


def asks_for_loads(pool: PoolSpec) -> bool:
    """Does the pool count on what its desktops measure?"""
    triggers = pool.scale.triggers if pool.scale is not None else ()
    return pool.timeouts.idle_below is not None or any(each.metric.measured for each in triggers)


def is_scaled(view: LedgerView) -> bool:
    """Does a group of replicas follow its load?"""
    return any(vm.spec.scale is not None for vm in view.vms)


def vm_loads(hosts: Iterable[HostFrame], sample: FleetSample) -> tuple[VmLoad, ...]:
    """Of each VM whose vGPUs told something; of several vGPUs the busiest counts."""
    found: dict[str, VmLoad] = {}
    for gpu in current_gpus(hosts, sample):
        for part in gpu.parts:
            if part.part is not None and part.figures:
                vm = part.part.allocation.vm_id
                load = _load(vm, gpu, part.figures)
                found[vm] = _busiest(found[vm], load) if vm in found else load
    return tuple(found.values())


def _load(vm: str, gpu: CurrentGpu, figures: Figures) -> VmLoad:
    used, whole = figures.get("framebuffer_used_bytes"), figures.get("framebuffer_total_bytes")
    return VmLoad(
        vm=vm,
        at=gpu.at,
        gpu=_share(gpu.figures, "utilization_percent"),
        engine=_share(figures, "sm_percent"),
        encoder=_share(figures, "encoder_percent"),
        decoder=_share(figures, "decoder_percent"),
        framebuffer=min(1.0, used / whole) if used is not None and whole else None,
    )


def _share(figures: Figures, name: str) -> float | None:
    return min(1.0, figures[name] / 100) if name in figures else None


def _busiest(one: VmLoad, other: VmLoad) -> VmLoad:
    return VmLoad(
        vm=one.vm,
        at=min(one.at, other.at),
        gpu=_larger(one.gpu, other.gpu),
        engine=_larger(one.engine, other.engine),
        encoder=_larger(one.encoder, other.encoder),
        decoder=_larger(one.decoder, other.decoder),
        framebuffer=_larger(one.framebuffer, other.framebuffer),
    )


def _larger(one: float | None, other: float | None) -> float | None:
    told = [each for each in (one, other) if each is not None]
    return max(told, default=None)
