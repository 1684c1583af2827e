"""``host add --bootstrap``: bare Debian machines become hosts, by the collection ``host-setup``."""

from vgpumgr.app.bootstrap.events import Event, HostEnd, Outcome
from vgpumgr.app.bootstrap.faults import where
from vgpumgr.app.bootstrap.setup import Result, set_up
from vgpumgr.app.bootstrap.variables import Wish, checked

__all__ = ["Event", "HostEnd", "Outcome", "Result", "Wish", "checked", "set_up", "where"]
