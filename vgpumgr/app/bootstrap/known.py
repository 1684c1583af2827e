"""Is a host enrolled already? The same one may be set up again, another may not take its place."""

from __future__ import annotations

from vgpumgr.app.composition import App
from vgpumgr.app.router import is_simulated
from vgpumgr.hosts.ssh.address import LOCAL
from vgpumgr.model.errors import Conflict, UsageError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Ledger


def known_as(app: App, ledger: Ledger, record: HostRecord) -> HostRecord | None:
    """The ledger's record of this host, None for a new one.

    Conflict where its name or its place is another host's; UsageError for a simulated host.
    """
    if is_simulated(record):
        raise UsageError(
            f"{record.name} is simulated: there is nothing to set up",
            next=f"vgpumgr host add {record.name} --address {record.address}",
        )
    place = _place(app, record)
    for other in ledger.hosts():
        same = not is_simulated(other) and _place(app, other) == place
        if same and other.name == record.name:
            return other
        if same or other.name == record.name:
            raise Conflict(
                f"host {other.name} ({other.address}) is enrolled already",
                next=f"vgpumgr host show {other.name}",
            )
    return None


def _place(app: App, record: HostRecord) -> tuple[str, int]:
    """Where it is, whoever comes."""
    if record.address == LOCAL:
        return LOCAL, 0
    target = app.real_hosts.ways.target(record.address)
    return target.host, target.port
