"""Why a request does not fit, or where it would go. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr.engine.supply import build_fleet
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.placement import NotPlaced, Reason
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import explain as reasons
from vgpumgr.placement import place


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One VM: the host it would go to (None: nowhere), and a reason per GPU or host."""

    vm: str
    host: str | None
    reasons: tuple[Reason, ...]


def explain(
    view: LedgerView, specs: Sequence[VmSpec], policy: PlacementPolicy
) -> tuple[Explanation, ...]:
    """Each VM on its own, as if it were asked for now."""
    fleet = build_fleet(view)
    decisions = [place(fleet, [spec], policy)[0] for spec in specs]
    return tuple(
        Explanation(
            vm=spec.name,
            host=None if isinstance(decision, NotPlaced) else decision.host,
            reasons=reasons(fleet, spec),
        )
        for spec, decision in zip(specs, decisions, strict=True)
    )
