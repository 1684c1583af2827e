"""Hosts enrolled, trusted again, removed, and their helper upgraded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vgpumgr.app.composition import App, is_simulated
from vgpumgr.helper import VERSION
from vgpumgr.model.errors import NotPermitted, UsageError, VgpumgrError
from vgpumgr.model.host import HostRecord

AcceptKey = Callable[[str, str], None]


def enrol(
    app: App, record: HostRecord, *, fingerprint: str, install: bool, accept: AcceptKey
) -> HostRecord:
    """Enrol one host. Nothing is left of it, here or there, unless it could be probed.

    ``accept`` is called with the name and the key of a host whose fingerprint was not given; it
    raises to refuse.
    """
    if not is_simulated(record):
        from vgpumgr.engine.hosts.host_membership import refuse_known
        from vgpumgr.hosts import real_hosts as reach

        refuse_known(app.writable_ledger, record)
        pinned = reach.pin_host_key(app.real_hosts, record, fingerprint, accept)
        record = replace(pinned, probe_only=not install)
    return keep(app, record, install=install)


def shown_key(app: App, record: HostRecord) -> str:
    """The SSH key that a host shows, where it is not known yet; empty where it is, or there is
    none. Nothing is kept of it. HostUnreachable, HostKeyChanged.
    """
    if is_simulated(record):
        return ""
    from vgpumgr.hosts import real_hosts as reach

    found: list[str] = []
    reach.pin_host_key(app.real_hosts, record, "", lambda _, key: found.append(key))
    return "".join(found)


def keep(app: App, record: HostRecord, *, install: bool = False) -> HostRecord:
    """Enrol a host that is pinned and has its helper, or is to get it."""
    app.engine.enrol(record, install=install).raise_for_failure()
    app.engine.refresh([record.name])
    return app.writable_ledger.host(record.name)


def trust(app: App, name: str, fingerprint: str) -> None:
    """Pin a new key; the host must show it now."""
    from vgpumgr.hosts import real_hosts as reach

    ledger = app.writable_ledger
    record = replace(ledger.host(name), host_key=fingerprint)
    reach.pin_host_key(app.real_hosts, record, fingerprint, accept=lambda _name, _key: None)
    ledger.update_host(record)


def remove(app: App, name: str, *, reach: bool) -> tuple[str, ...]:
    """Take a host out, with its helper; without ``reach`` nothing is asked of it.

    The answer: GPUs whose layout the host does not keep for its boots any longer.
    """
    if not reach:
        app.engine.forget_host(name)
        return ()
    record = app.writable_ledger.host(name)
    removed = app.engine.remove_host(name)
    removed.outcome.raise_for_failure()
    if not is_simulated(record):
        app.real_hosts.forget(name)
    return removed.layouts


HELPER_VERSION = VERSION


def upgrade_helper(app: App, name: str) -> tuple[str, str]:
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
