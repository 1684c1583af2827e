"""All rules over one dump."""

from __future__ import annotations

from tests.checker import (
    audited,
    backups,
    claims,
    foreign,
    images,
    leaks,
    nics,
    operations,
    pools,
    queue,
    slices,
    vms,
)
from tests.checker.seen import Dump, Seen
from tests.checker.violation import Violation

RULES = (
    *(slices, claims, leaks, nics, images, backups),
    *(operations, vms, queue, pools, foreign, audited),
)


def check(dump: Dump, baseline: Dump | None = None) -> list[Violation]:
    """Every violation, once all operations have ended. ``baseline`` is a dump from before."""
    seen, before = Seen(dump), Seen(baseline) if baseline else None
    return [each for rule in RULES for each in rule.violations(seen, before)]


def check_any_time(dump: Dump) -> list[Violation]:
    """The violations that there may be at no moment: an owner too many, a VM that runs twice."""
    seen = Seen(dump)
    return [*slices.violations(seen, None), *nics.held_twice(seen), *vms.dual_running(seen)]
