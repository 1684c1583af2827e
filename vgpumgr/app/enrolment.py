"""Enrolling hosts: pin the key, install the helper, probe, write down; and the way back."""

from __future__ import annotations

from collections.abc import Callable
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
    if not is_simulated(record):
        from vgpumgr.hosts import enrol as reach

        pinned = reach.pin(app.real_hosts, record, fingerprint, accept)
        record = replace(pinned, probe_only=not install)
        if install:
            reach.install(app.real_hosts, record)
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


def remove(app: App, name: str, *, reach: bool) -> None:
    """Take the helper away and close the host's row; refused while anything is allocated."""
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
    if reach and not is_simulated(record) and not record.probe_only:
        from vgpumgr.hosts import enrol as reached

        reached.uninstall(app.real_hosts, record)
    ledger.remove_host(name)
