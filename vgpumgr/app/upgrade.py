"""The helper of an enrolled host replaced by the one that this vgpumgr brings along."""

from __future__ import annotations

from vgpumgr.app.composition import App
from vgpumgr.helper import VERSION
from vgpumgr.model.errors import NotPermitted, UsageError, VgpumgrError
from vgpumgr.model.host import HostRecord

HELPER_VERSION = VERSION


def upgrade(app: App, name: str) -> tuple[str, str]:
    """Install it, read its version back and probe; the versions before (empty: unknown) and now.

    Claims and VMs stay as they are. UsageError for a host that is probed only.
    """
    record = app.ledger.host(name)
    if record.probe_only:
        raise UsageError(
            f"{name} is probe-only: no helper is installed there",
            next=f"vgpumgr host remove {name}, then host add without --no-install",
        )
    before = _version(app, record)
    _install(app, record)
    # One that was enrolled by an older vgpumgr has no mark of its fleet yet.
    app.hosts.open(record).helper.call("fleet_join", {})
    failed = app.engine.refresh([name]).failed
    if name in failed:
        raise failed[name]
    facts = app.writable_ledger.host(name).facts
    return before, facts.versions.helper if facts else ""


def _install(app: App, record: HostRecord) -> None:
    try:
        app.hosts.open(record).installation.install()
    except NotPermitted as refused:
        # After a set-up the host is reached by a user who may run the helper and nothing else.
        again = f"vgpumgr host add {record.name} --address ADMIN@HOST --bootstrap"
        refused.next = f"{again}   (ADMIN may become root there), or {refused.next}"
        raise


def _version(app: App, record: HostRecord) -> str:
    """What is installed now; a helper that is broken or gone is what an upgrade is for."""
    try:
        return str(app.hosts.open(record).helper.call("version", {}).get("helper", ""))
    except VgpumgrError:
        return ""
