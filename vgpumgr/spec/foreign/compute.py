"""mig-parted counts compute instances; a layout lists GPU instances with what is in each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vgpumgr.model.layout import InstanceGoal

_NAME = re.compile(
    r"(?:(?P<c>[1-9])c\.)?(?P<gi>(?P<g>[1-9])g\.\d{1,4}gb(?:[+-][a-z0-9.,+-]{1,32})?)"
)


@dataclass(slots=True)
class Filled:
    """A GPU instance being filled; ``free`` are its compute slices left."""

    profile: str
    free: int
    compute: list[str] = field(default_factory=list)
    count: int = 1
    start: None = None


def is_name(name: str) -> bool:
    """Whether it has the form ``1g.10gb``, ``1g.10gb+me`` or ``1c.3g.40gb``."""
    match = _NAME.fullmatch(name)
    return match is not None and int(match["c"] or 0) <= int(match["g"])


def instances(counts: Mapping[str, int]) -> tuple[Filled, ...]:
    """GPU instances that hold these compute instances: as few as possible, as the tool does.

    Source: SetMigConfig in pkg/mig/config/config.go, which fills a GPU instance of the same
    profile before it makes the next one.
    """
    made: list[Filled] = []
    for name, (profile, slices, total) in _by_size(counts):
        for _ in range(counts[name]):
            with_room = (e for e in made if e.profile == profile and e.free >= slices)
            instance = next(with_room, None)
            if instance is None:
                instance = Filled(profile, total)
                made.append(instance)
            instance.free -= slices
            instance.compute.append(profile if slices == total else name)
    return tuple(made)


def goals(made: Sequence[Filled]) -> tuple[InstanceGoal, ...]:
    """The same in the model's words."""
    return tuple(InstanceGoal(profile=each.profile, compute=tuple(each.compute)) for each in made)


def counts(wanted: Sequence[InstanceGoal]) -> dict[str, int]:
    """Compute instances by name; an instance without any counts as one of its full size."""
    names = (name for goal in wanted for name in goal.compute or (goal.profile,))
    return dict(Counter(names))


def _by_size(counts: Mapping[str, int]) -> list[tuple[str, tuple[str, int, int]]]:
    """Names with their GPU instance, slices and slices of the instance, the largest first."""
    found = []
    for name in counts:
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is not a MIG profile")
        total = int(match["g"])
        found.append((name, (match["gi"], int(match["c"] or total), total)))
    return sorted(found, key=lambda each: -each[1][1])
