"""Profile names that a caller writes, as placement writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.model.errors import UnknownProfile

if TYPE_CHECKING:
    from vgpumgr.model.ledger import Ledger


def known_profile(ledger: Ledger, name: str) -> str:
    """The name as placement writes it; UnknownProfile where neither the catalogue nor a probed
    GPU knows it.
    """
    from vgpumgr import catalog
    from vgpumgr.engine.inventory.observation import learned_profiles

    profile = catalog.normalise(name.strip())
    if profile in catalog.profiles():
        return profile
    learned = learned_profiles(ledger)
    if profile in learned:
        return profile
    near = catalog.suggest(profile, learned)
    raise UnknownProfile(
        f"unknown profile {profile}",
        why=f"did you mean {' or '.join(near)}?" if near else "",
        next="vgpumgr capacity lists what the fleet can provide",
    )
