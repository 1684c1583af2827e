"""What is meant, what would be done about it, and what came of it. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from vgpumgr.engine.heal.remedy import Remedy, Way
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.model.drift import Drift, DriftKind, NotRead
from vgpumgr.model.errors import VgpumgrError


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which differences are meant: of these hosts, VMs and kinds; empty: all."""

    hosts: tuple[str, ...] = ()
    vms: frozenset[str] = frozenset()
    kinds: frozenset[DriftKind] = frozenset()

    def means(self, found: Drift) -> bool:
        """Is a difference among them? Hosts were chosen when they were looked at."""
        return (not self.vms or found.vm in self.vms) and (
            not self.kinds or found.kind in self.kinds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HealPlan:
    """Remedies as they would be, by host, and what could not be read."""

    remedies: tuple[Remedy, ...] = ()
    not_read: tuple[NotRead, ...] = ()
    hosts: int = 0
    vms: int = 0
    skipped: tuple[str, ...] = ()

    @property
    def to_do(self) -> tuple[Remedy, ...]:
        """What ``heal`` would do."""
        return tuple(each for each in self.remedies if each.ours)

    @property
    def for_you(self) -> tuple[Remedy, ...]:
        """What only an operator can."""
        return tuple(each for each in self.remedies if each.way is Way.YOU)


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """What was to be done, how its tasks ended, and what is left when one looks again."""

    planned: HealPlan
    outcome: Outcome = field(default_factory=Outcome)
    left: HealPlan = field(default_factory=HealPlan)
    errors: tuple[VgpumgrError, ...] = ()
