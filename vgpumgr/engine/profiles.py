"""Profiles that probed hosts told of, beside the catalogue's."""

from __future__ import annotations

from vgpumgr import gpu as frameworks
from vgpumgr.model.ports import Ledger


def learned_profiles(ledger: Ledger) -> frozenset[str]:
    """Every name that a GPU of the fleet taught: a user may write it."""
    return frozenset[str]().union(
        *(frameworks.learned_profiles(gpu.facts) for gpu in ledger.gpus())
    )
