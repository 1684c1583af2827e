"""Protocols that the outer rooms fulfil. The engine knows hosts and the store only by these."""

from vgpumgr.model.ports.clock import Clock
from vgpumgr.model.ports.doors import Door, Doors
from vgpumgr.model.ports.fencing import Fencing
from vgpumgr.model.ports.host import Helper, Host, Hosts, Installation
from vgpumgr.model.ports.lanes import Lanes, Looks, Waiting
from vgpumgr.model.ports.ledger import Ledger
from vgpumgr.model.ports.libvirt import Domains, Storage
from vgpumgr.model.ports.stream import Stream

__all__ = [
    "Clock",
    "Domains",
    "Door",
    "Doors",
    "Fencing",
    "Helper",
    "Host",
    "Hosts",
    "Installation",
    "Lanes",
    "Ledger",
    "Looks",
    "Storage",
    "Stream",
    "Waiting",
]
