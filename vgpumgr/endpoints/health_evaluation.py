"""The endpoint of `health evaluate`: what the declared actions would do about GPUs now, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.figure_items import newest_sample
from vgpumgr.endpoints.gpu_items import EvidenceItem, evidence_item
from vgpumgr.endpoints.outcomes import UserItem, user_items
from vgpumgr.endpoints.shapes import Name

if TYPE_CHECKING:
    from vgpumgr.engine.desktops.user_sessions import UserAtWork
    from vgpumgr.engine.hosts.due_care import DueCare


class DueItem(TypedDict):
    """A GPU that something speaks against, or that is too hot: ``asks`` is the class of what it
    asks for, ``action`` what the policy makes due next (``cordon``, ``drain``, ``evacuate``,
    ``reset``; empty: it is told alone) and ``would`` that in words. ``held_back`` is why `serve`
    would not do it now. ``users`` are at work on its ``vms``. ``temperature_c`` is its newest;
    ``heat`` what follows, step by step, where that is too high and stays so.
    """

    name: str
    host: str
    device: str
    model: str
    condition: str
    asks: str
    evidence: list[EvidenceItem]
    action: str
    would: str
    held_back: str
    vms: list[str]
    users: list[UserItem]
    temperature_c: int | None
    heat: list[str]


class HealthEvaluation(TypedDict):
    """What is due. ``health_mode`` and ``power_mode``: whether `serve` acts (``act``) or tells
    (``dry-run``); ``actions`` are those of each class; ``out`` of ``gpus`` GPUs take no VMs.
    """

    name: str
    health_mode: str
    power_mode: str
    actions: dict[str, list[str]]
    out: int
    gpus: int
    items: list[DueItem]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthAsked:
    """GPUs of one ``host``, or all."""

    host: Name | None = None


def evaluate_health(context: CallContext, asked: HealthAsked) -> Result[HealthEvaluation]:
    """By the ledger and the newest figures; nothing is changed, and no host is asked."""
    policy, ledger = context.app.config.health, context.app.ledger
    host = ledger.host(asked.host).name if asked.host else None
    gpus = ledger.gpus()
    return Result(
        answer={
            "name": "health",
            "health_mode": str(policy.mode),
            "power_mode": str(context.app.config.power_mode),
            "actions": {str(asks): [*map(str, policy.of(asks))] for asks in policy.actions},
            "out": sum(not each.condition.takes_vms for each in gpus),
            "gpus": len(gpus),
            "items": list(_items(context, host)),
        }
    )


def _items(context: CallContext, host: str | None) -> Iterator[DueItem]:
    from vgpumgr.engine.desktops.user_sessions import at_work
    from vgpumgr.engine.hosts.due_care import due_care, many_out
    from vgpumgr.engine.inventory.ledger_view import read_view
    from vgpumgr.health.health_policy import HealthMode
    from vgpumgr.model.health import HealthState

    app = context.app
    view, policy = read_view(app.ledger), app.config.health
    heat = _temperatures(context)
    users = at_work(app.ledger, view)
    many = many_out(view.gpus)
    tells = f"health_mode is {policy.mode}" if policy.mode is HealthMode.DRY_RUN else ""
    for gpu in view.gpus:
        warm = heat.get((gpu.host, gpu.facts.device))
        steps = _steps(context, warm)
        if host not in {None, gpu.host} or not (
            steps or gpu.condition is not HealthState.HEALTHY or gpu.health.evidence
        ):
            continue
        care = due_care(app.engine, policy, gpu)
        there = [users[vm.id] for vm in care.vms if vm.id in users]
        held_back = ", and ".join(filter(None, (tells, many))) if care.action else ""
        yield _item(care, held_back, there, warm, steps)


def _item(
    care: DueCare, held_back: str, users: list[UserAtWork], warm: int | None, heat: list[str]
) -> DueItem:
    gpu = care.gpu
    return {
        "name": gpu.id,
        "host": gpu.host,
        "device": gpu.facts.device,
        "model": gpu.facts.model,
        "condition": str(gpu.condition),
        "asks": str(gpu.health.asks),
        "evidence": [evidence_item(each) for each in gpu.health.evidence],
        "action": str(care.action or ""),
        "would": care.words,
        "held_back": held_back,
        "vms": [vm.name for vm in care.vms],
        "users": user_items(users),
        "temperature_c": warm,
        "heat": heat,
    }


def _temperatures(context: CallContext) -> dict[tuple[str, str], int]:
    """By host and address, as far as they were told lately."""
    sample = newest_sample(context.app)
    return {
        (each.host, gpu.address): gpu.figures["temperature_gpu_c"]
        for each in (sample.hosts if sample is not None else ())
        for gpu in (each.figures.gpus if each.figures is not None else ())
        if "temperature_gpu_c" in gpu.figures
    }


def _steps(context: CallContext, celsius: int | None) -> list[str]:
    """What the readings of a GPU that stays as hot as this lead to, in order."""
    from vgpumgr.engine.controller.power_task import PowerPolicy
    from vgpumgr.power.thermal_ladder import Heat

    if celsius is None or celsius < Heat().hot_c:
        return []
    config = context.app.config
    policy = PowerPolicy(mode=config.power_mode, health=config.health)
    last = f"{policy.drains}" if policy.drains is not None else ""
    return ["lock-clocks", "least-limit", "cordon", *([last] if last else [])]


EVALUATE_HEALTH = Endpoint(
    name="health.evaluate",
    method=HttpMethod.GET,
    path="/health-evaluation",
    permission=Permission.FLEET_READ,
    summary="What the declared actions would do about GPUs now, with the evidence.",
    asks=HealthAsked,
    answers=HealthEvaluation,
    kind="HealthEvaluation",
    work=evaluate_health,
)

ENDPOINTS = (EVALUATE_HEALTH,)
