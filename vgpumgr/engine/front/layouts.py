"""How GPUs are partitioned: planned, made so, written down."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import adopt, layout
from vgpumgr.model.layout import LayoutPlan, LayoutSpec


class Layouts(Session):
    """Partitioning of GPUs."""

    __slots__ = ()

    def layout_plan(self, specs: Sequence[LayoutSpec] | None) -> LayoutPlan:
        """Probe, then say what applying these layouts (None: the last applied) would do."""
        return layout.plan(self, specs)[0]

    def layout_export(self, hosts: Sequence[str] = ()) -> tuple[LayoutSpec, ...]:
        """Probe, then write down how GPUs are partitioned."""
        return layout.export(self, hosts)

    def layout_apply(self, specs: Sequence[LayoutSpec] | None) -> tuple[LayoutPlan, Outcome]:
        """Plan, refuse what stands in a guest's way (Conflict), execute, and look again."""
        return layout.apply(self, specs)

    def adopt_layout(self, host: str) -> tuple[LayoutPlan, Outcome]:
        """Declare how a host's GPUs are partitioned now, without changing any."""
        return adopt.adopt_layout(self, host)
