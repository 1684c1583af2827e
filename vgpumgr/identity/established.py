"""What an identity source comes to: who asks, what he may do, and how the trail names him."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.access.grants import Grants
from vgpumgr.access.principal import Principal
from vgpumgr.model.actor import Actor
from vgpumgr.model.credential import AccessLedger
from vgpumgr.model.role_binding import EVERY_TENANT


@dataclass(frozen=True, slots=True)
class Established:
    """Who asks, with the grants of this moment."""

    principal: Principal
    grants: Grants
    actor: Actor


def established(
    ledger: AccessLedger, principal: Principal, address: str = "", credential: str = ""
) -> Established:
    """A principal with what its bindings give now. ``address`` is where it asks from,
    ``credential`` the id of the session that was shown.
    """
    grants = grants_of(ledger, principal)
    actor = Actor(
        user=principal.user, method=principal.method, address=address, credential=credential
    )
    return Established(principal, grants, actor)


def shown_login(who: Established) -> str:
    """``token:ID``, ``browser:ID``, ``socket:local:root``: the same for the same login only, and no
    secret.
    """
    actor = who.actor
    return f"{actor.method}:{actor.credential or who.principal.subject}"


def grants_of(ledger: AccessLedger, principal: Principal) -> Grants:
    """What the bindings of a principal give now."""
    return Grants.of(principal, ledger.role_bindings(principal.subjects))


def acted_tenant(tenant: str) -> str:
    """A binding's tenant as an actor names it: empty for all."""
    return "" if tenant == EVERY_TENANT else tenant
