"""Where a guest itself may be reached, beside its console."""

from __future__ import annotations

from vgpumgr.engine.session import Session
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.vm import VmRecord


def guest_addresses(session: Session, vm: VmRecord) -> tuple[str, ...]:
    """As the agent in the guest tells them; none where it has no agent, or none answers."""
    if not vm.spec.agent:
        return ()
    try:
        found = session.host(vm.host).domains.guest(vm.id)
    except VgpumgrError:
        return ()  # the ticket is what was asked for
    return found.addresses if found is not None else ()
