"""Enrolling hosts, and taking them out: keys are pinned here, the rest is the engine's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vgpumgr.app.composition import App
from vgpumgr.app.router import is_simulated
from vgpumgr.engine.use_cases.enrol import refuse_known
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
        from vgpumgr.hosts import enrol as reach

        refuse_known(app.writable_ledger, record)
        pinned = reach.pin(app.real_hosts, record, fingerprint, accept)
        record = replace(pinned, probe_only=not install)
    return keep(app, record, install=install)


def keep(app: App, record: HostRecord, *, install: bool = False) -> HostRecord:
    """Enrol a host that is pinned and has its helper, or is to get it."""
    app.engine.enrol(record, install=install).raise_for_failure()
    app.engine.refresh([record.name])
    return app.writable_ledger.host(record.name)


def trust(app: App, name: str, fingerprint: str) -> None:
    """Pin a new key; the host must show it now."""
    from vgpumgr.hosts import enrol as reach

    ledger = app.writable_ledger
    record = replace(ledger.host(name), host_key=fingerprint)
    reach.pin(app.real_hosts, record, fingerprint, accept=lambda _name, _key: None)
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
