"""Profiles as users name them on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import catalog
from vgpumgr.model.errors import UnknownProfile

if TYPE_CHECKING:
    from vgpumgr.cli.context import Context


def known_profile(context: Context, name: str) -> str:
    """The name as placement writes it; UnknownProfile where neither the catalogue nor a probed
    GPU knows it.
    """
    from vgpumgr.engine.profiles import learned_profiles

    profile = catalog.normalise(name.strip())
    if profile in catalog.profiles():
        return profile
    learned = learned_profiles(context.app.ledger)
    if profile in learned:
        return profile
    near = catalog.suggest(profile, learned)
    raise UnknownProfile(
        f"unknown profile {profile}",
        why=f"did you mean {' or '.join(near)}?" if near else "",
        next="vgpumgr capacity lists what the fleet can provide",
    )
