"""A ticket as its asker gets it: with the password that only he and `serve` can make."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.app.actor import machine, uids_at_work
from vgpumgr.app.tickets.secret import Half
from vgpumgr.engine.session import Session
from vgpumgr.engine.ticketing import asking
from vgpumgr.engine.ticketing.guest import guest_addresses
from vgpumgr.engine.use_cases import pool
from vgpumgr.model.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Given:
    """An open ticket and its password; ``addresses`` are the guest's own, where its agent tells
    them.
    """

    ticket: Ticket
    password: str
    addresses: tuple[str, ...] = ()


def connect_desktop(session: Session, pool_name: str, user: str, timeout_s: float) -> Given:
    """A ticket to the desktop of a pool on which a user is; Conflict where it is on none."""
    return connect(session, pool.desktop_of(session, pool_name, user), user, timeout_s)


def connect(session: Session, name: str, user: str, timeout_s: float) -> Given:
    """A ticket to a VM's console; see ``engine.ticketing.asking``."""
    addresses = guest_addresses(session, session.ledger.vm(name))
    half = Half()
    wish = asking.Wish(
        user=user,
        machine=machine(),
        key=half.public,
        timeout_s=timeout_s,
        uids=uids_at_work(),
    )
    ticket = asking.connect(session, name, wish)
    return Given(ticket, half.password(ticket.answer), addresses)
