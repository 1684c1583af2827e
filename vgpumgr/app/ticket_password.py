"""Console tickets for a client, with a password that only client and controller can derive."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from vgpumgr.app.actor import machine, uids_at_work
from vgpumgr.engine.consoles import console_request
from vgpumgr.engine.consoles.console_request import guest_addresses
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.pools import desktop_assignment
from vgpumgr.model.console_ticket import ConsoleTicket
from vgpumgr.model.errors import UsageError

LENGTH = 8
"""All that a VNC password may have."""
# 32 of them, none of which looks like another: 40 bits, for a handful of tries.
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


class PasswordHalf:
    """One side's key pair. ``public`` is text for the other side, and no secret."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = base64.urlsafe_b64encode(
            self._private.public_key().public_bytes_raw()
        ).decode()

    def password(self, other: str) -> str:
        """The same for both sides; UsageError where ``other`` is no public key."""
        try:
            key = X25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(other))
            shared = self._private.exchange(key)
        except ValueError as error:
            raise UsageError("the ticket has no public key", why=str(error)) from error
        made = HKDF(SHA256(), LENGTH, salt=None, info=b"vgpumgr ticket").derive(shared)
        return "".join(_LETTERS[byte % len(_LETTERS)] for byte in made)


@dataclass(frozen=True, slots=True)
class GivenTicket:
    """An open ticket and its password; ``addresses`` are the guest's own, where its agent tells
    them.
    """

    ticket: ConsoleTicket
    password: str
    addresses: tuple[str, ...] = ()


def connect_desktop(
    context: EngineContext, pool_name: str, user: str, timeout_s: float
) -> GivenTicket:
    """A ticket to the desktop of a pool on which a user is; Conflict where it is on none."""
    return connect_vm(
        context, desktop_assignment.desktop_of(context, pool_name, user), user, timeout_s
    )


def connect_vm(context: EngineContext, name: str, user: str, timeout_s: float) -> GivenTicket:
    """A ticket to a VM's console; see ``engine.ticketing.asking``."""
    addresses = guest_addresses(context, context.ledger.vm(name))
    half = PasswordHalf()
    request = console_request.ConsoleRequest(
        user=user,
        machine=machine(),
        key=half.public,
        timeout_s=timeout_s,
        uids=uids_at_work(),
    )
    ticket = console_request.connect(context, name, request)
    return GivenTicket(ticket, half.password(ticket.answer), addresses)
