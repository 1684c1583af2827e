"""Gathering what the checks of a host go by: a probe, the helper's ``examine``, our own clock."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.app.composition import App
from vgpumgr.app.router import is_simulated
from vgpumgr.engine.clock import SystemClock
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.examined import Examination, Examined
from vgpumgr.model.host import HostFacts, HostRecord, UnknownPart
from vgpumgr.model.ports import Clock, Host

_CLOCK = SystemClock()


def examination(app: App, record: HostRecord) -> Examination:
    """Probe the host and examine it.

    Where the installed helper does not start, one that travels with the call looks in its place.
    Raises HostUnreachable, DeadlineExceeded, HostKeyChanged, …
    """
    observation = app.engine.refresh([record.name])
    if record.name in observation.facts:
        host = app.hosts.open(record)
        return look(record, host, observation.facts[record.name])
    refused = observation.failed[record.name]
    if is_simulated(record) or record.probe_only:
        raise refused
    travelling = app.hosts.open(replace(record, probe_only=True))
    try:
        facts = travelling.probe()
    except VgpumgrError:
        raise refused from None
    return look(record, travelling, facts)


def look(record: HostRecord, host: Host, facts: HostFacts, clock: Clock = _CLOCK) -> Examination:
    """Examine a host that was just probed; a refusal is *unknown* in every part."""
    from vgpumgr.hosts.facts.examined import examined
    from vgpumgr.hosts.helper.bundle import helper_version
    from vgpumgr.hosts.helper.launch import sudo_rule

    before = clock.now()
    try:
        seen = examined(host.helper.call("examine", {}), record.name)
    except VgpumgrError as error:
        why = f"{error.message}: {error.why}" if error.why else error.message
        # A helper that is too old to examine has told its version in the probe.
        installed = None if record.probe_only else facts.versions.helper or None
        seen = Examined(installed=installed, unknown=(UnknownPart(part="examine", why=why),))
    after = clock.now()
    return Examination(
        record=record,
        facts=facts,
        seen=seen,
        helper_version=helper_version(),
        sudo_rule=sudo_rule(),
        clock_offset_s=None if seen.now is None else seen.now - (before + after) / 2,
        clock_within_s=(after - before) / 2,
    )
