"""Enrolling hosts: pin the key, install the helper, probe, write down; and the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vgpumgr.app.composition import App
from vgpumgr.app.router import is_simulated
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostRecord

AcceptKey = Callable[[str, str], None]


def enrol(
    app: App, record: HostRecord, *, fingerprint: str, install: bool, accept: AcceptKey
) -> HostRecord:
    """Enrol one host. Nothing is written to the ledger unless the host could be probed.

    ``accept`` is called with the name and the key of a host whose fingerprint was not given; it
    raises to refuse.
    """
    ledger = app.writable_ledger
    _refuse_known(record, {host.name: host.address for host in ledger.hosts()})
    if is_simulated(record):
        if install:
            app.sim_hosts.install(record)
    else:
        from vgpumgr.hosts import enrol as reach

        pinned = reach.pin(app.real_hosts, record, fingerprint, accept)
        record = replace(pinned, probe_only=not install)
        if install:
            reach.install(app.real_hosts, record)
    return keep(app, record)


def keep(app: App, record: HostRecord) -> HostRecord:
    """Probe a host that is pinned and has its helper, and write it down; or nothing is written."""
    ledger = app.writable_ledger
    app.hosts.open(record).probe()
    ledger.add_host(record)
    app.engine.refresh([record.name])
    return ledger.host(record.name)


def _refuse_known(record: HostRecord, known: dict[str, str]) -> None:
    for name, address in known.items():
        if name == record.name or address == record.address:
            raise Conflict(
                f"host {name} ({address}) is enrolled already",
                next=f"vgpumgr host show {name}",
            )


def trust(app: App, name: str, fingerprint: str) -> None:
    """Pin a new key; the host must show it now."""
    from vgpumgr.hosts import enrol as reach

    ledger = app.writable_ledger
    record = replace(ledger.host(name), host_key=fingerprint)
    reach.pin(app.real_hosts, record, fingerprint, accept=lambda _name, _key: None)
    ledger.update_host(record)


def remove(app: App, name: str, *, reach: bool) -> tuple[str, ...]:
    """Take the helper away and close the host's row; refused while anything is allocated.

    The answer: GPUs whose layout the host does not keep for its boots any longer.
    """
    ledger = app.writable_ledger
    record = ledger.host(name)
    held = [each for each in ledger.allocations() if each.host == name]
    vms = [vm.name for vm in ledger.vms() if vm.host == name]
    if held or vms:
        raise Conflict(
            f"host {name} is in use",
            why=f"{len(vms)} VMs and {len(held)} allocations are on it",
            next=f"vgpumgr vm list, then delete those on {name}",
        )
    left = _uninstall(app, record) if reach and not record.probe_only else ()
    ledger.remove_host(name)
    return left


def _uninstall(app: App, record: HostRecord) -> tuple[str, ...]:
    if is_simulated(record):
        forgotten = app.hosts.open(record).helper.call("forget", {})
        app.sim_hosts.uninstall(record)
        return _layouts(forgotten)
    from vgpumgr.hosts import enrol as reach

    return _layouts(reach.uninstall(app.real_hosts, record))


def _layouts(answer: Mapping[str, object]) -> tuple[str, ...]:
    """The GPUs that the helper's ``forget`` names; an older one names none."""
    found = answer.get("layouts")
    return tuple(map(str, found)) if isinstance(found, list) else ()
