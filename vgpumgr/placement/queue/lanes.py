"""Short work and long work kept apart: the long may not fill the fleet to the brim."""

from __future__ import annotations

from vgpumgr.model.queue import Rules
from vgpumgr.model.quota import Amount
from vgpumgr.model.terms import Terms
from vgpumgr.placement.queue.sizes import Sizes


class Lanes:
    """How much of the fleet long work holds."""

    def __init__(self, rules: Rules, sizes: Sizes) -> None:
        self._rules, self._sizes = rules, sizes
        self._long = Amount()

    def is_long(self, terms: Terms) -> bool:
        """Longer than short work, or nobody knows."""
        return terms.runtime_s is None or terms.runtime_s > self._rules.short_s

    def take(self, terms: Terms, amount: Amount) -> None:
        """It runs."""
        if self._rules.kept_for_short and self.is_long(terms):
            self._long += amount

    def give(self, terms: Terms, amount: Amount) -> None:
        """It runs no more."""
        if self._rules.kept_for_short and self.is_long(terms):
            self._long -= amount

    def allows(self, terms: Terms, amount: Amount) -> bool:
        """Whether it may start; one that is the only long one always may."""
        if not self._rules.kept_for_short or not self.is_long(terms) or not self._long.vms:
            return True
        return self._sizes.share(self._long + amount) <= 1 - self._rules.kept_for_short
