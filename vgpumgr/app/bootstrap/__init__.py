"""``host add --bootstrap``: bare Debian machines become hosts, by the collection ``host-setup``."""

from vgpumgr.app.bootstrap.host_setup import SetupResult, set_up_hosts
from vgpumgr.app.bootstrap.playbook_events import HostSetupEnd, PlaybookEvent, SetupOutcome, where
from vgpumgr.app.bootstrap.variables import SetupRequest, checked

__all__ = [
    "HostSetupEnd",
    "PlaybookEvent",
    "SetupOutcome",
    "SetupRequest",
    "SetupResult",
    "checked",
    "set_up_hosts",
    "where",
]
