"""How many desktops their load has asked for over the last minutes. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgpumgr.model.load_scale import LoadMetric, LoadWindow, ScalePolicy, ScaleTrigger, VmLoad

EVERY_S = 10.0
"""Loads are noted no more often."""
# A gap in the notes that is longer makes them begin again.
GAP_S = 120.0
# 9 of 10 at 90 % are ten, whatever binary fractions make of it.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerState:
    """A trigger at one time: the mean of its metric (None: nothing told it), over ``told``
    members, and how many it asks for at least.
    """

    metric: LoadMetric
    threshold: float
    mean: float | None
    told: int
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLoad:
    """The members of a group at one time: the load of each (None: not told), and how many of them
    users have or wait for.
    """

    members: Sequence[VmLoad | None]
    used: int = 0

    def mean(self, metric: LoadMetric) -> float | None:
        """The mean over the members with such a figure; None without any."""
        if metric is LoadMetric.SESSIONS:
            return self.used / len(self.members) if self.members else None
        told = self._told(metric)
        return sum(told) / len(told) if told else None

    def states(self, policy: ScalePolicy) -> Iterator[TriggerState]:
        """Each trigger now."""
        for each in policy.triggers:
            told = len(self._told(each.metric)) if each.metric.measured else len(self.members)
            yield TriggerState(
                metric=each.metric,
                threshold=each.threshold,
                mean=self.mean(each.metric),
                told=told,
                wanted=self.wanted(each)[0],
            )

    def wanted(self, trigger: ScaleTrigger) -> tuple[int, int]:
        """How many are wanted at least and at most: of a member that does not tell it is assumed
        that it does nothing, and that it is as busy as the threshold.
        """
        if trigger.metric is LoadMetric.SESSIONS:
            found = _up(self.used / trigger.threshold)
            return found, found
        told = self._told(trigger.metric)
        least = _up(sum(told) / trigger.threshold)
        return least, least + len(self.members) - len(told)

    def silent(self, policy: ScalePolicy) -> int:
        """The members of which a trigger is not told."""
        measured = (each.metric for each in policy.triggers if each.metric.measured)
        return max((len(self.members) - len(self._told(each)) for each in measured), default=0)

    def _told(self, metric: LoadMetric) -> list[float]:
        shares = (each.share(metric) for each in self.members if each is not None)
        return [each for each in shares if each is not None]


@dataclass(frozen=True, slots=True)
class _Note:
    at: float
    least: int
    most: int
    silent: int


class LoadHistory:
    """The notes of one group, as far back as its policy looks. Times are Unix seconds."""

    def __init__(self) -> None:
        self._notes: deque[_Note] = deque()
        self._since = math.inf

    def is_due(self, now: float) -> bool:
        """Is the last note old enough? A clock that was put back begins them again."""
        return not self._notes or not 0 <= now - self._notes[-1].at < EVERY_S

    def add(self, policy: ScalePolicy, load: GroupLoad, now: float) -> None:
        """Note what the load asks for now."""
        if self._notes and not 0 <= now - self._notes[-1].at <= GAP_S:
            self._notes.clear()
        if not self._notes:
            self._since = now
        wanted = [load.wanted(each) for each in policy.triggers]
        least, most = max(w[0] for w in wanted), max(w[1] for w in wanted)
        self._notes.append(_Note(now, least, most, load.silent(policy)))
        longest = max(policy.sustained_s, policy.cooldown_s)
        while self._notes[0].at < now - longest:
            self._notes.popleft()

    def window(self, policy: ScalePolicy, now: float) -> LoadWindow:
        """What the notes ask for at ``now``."""
        if not self._notes or now - self._notes[-1].at > GAP_S:
            return LoadWindow()
        lately = [each.least for each in self._notes if each.at >= now - policy.sustained_s]
        cooling = [each for each in self._notes if each.at >= now - policy.cooldown_s]
        grows = bool(lately) and self._since <= now - policy.sustained_s
        falls = bool(cooling) and self._since <= now - policy.cooldown_s
        return LoadWindow(
            least=min(lately) if grows else 0,
            most=max(each.most for each in cooling) if falls else None,
            silent=min(each.silent for each in cooling) if falls else 0,
        )


def _up(number: float) -> int:
    return math.ceil(number - _ROUNDING)
