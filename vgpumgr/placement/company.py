"""The VMs on a host as far as others care: by their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from vgpumgr.placement.demand import Labels, matches, selector


class Company:
    """``vms`` is how many there are. What was once asked for is counted on as VMs come and go."""

    __slots__ = ("_labelled", "_matching", "vms")

    def __init__(self, labels: Iterable[Mapping[str, str]]) -> None:
        all_of = [selector(each) for each in labels]
        self.vms = len(all_of)
        self._labelled = Counter(each for each in all_of if each)
        self._matching: dict[Labels, int] = {}

    def matching(self, wanted: Labels) -> int:
        """How many VMs have all of these labels; wanting none, none has them."""
        found = self._matching.get(wanted)
        if found is None:
            found = sum(
                count for labels, count in self._labelled.items() if matches(wanted, dict(labels))
            )
            self._matching[wanted] = found
        return found

    def change(self, labels: Mapping[str, str], change: int) -> None:
        """A VM with these labels has come (1), or gone (-1)."""
        self.vms += change
        if not labels:
            return
        self._labelled[selector(labels)] += change
        for wanted in self._matching:
            self._matching[wanted] += change * matches(wanted, labels)
