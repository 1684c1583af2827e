"""Probe hosts side by side and keep what they showed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from vgpumgr import gpu as frameworks
from vgpumgr.engine.amnesia.noticing import notice, set_aside
from vgpumgr.model.errors import HostUnreachable, VgpumgrError
from vgpumgr.model.gpu import GpuFacts, GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.ports import Clock, Host, Hosts, Lanes, Ledger


@dataclass(frozen=True, slots=True)
class Observation:
    """What a round of probes gave: facts per host that answered, an error per host that did not,
    and a line per host that was set aside by it.
    """

    facts: Mapping[str, HostFacts] = field(default_factory=dict)
    failed: Mapping[str, VgpumgrError] = field(default_factory=dict)
    set_aside: tuple[str, ...] = ()


def observe(
    records: Iterable[HostRecord], hosts: Hosts, ledger: Ledger, lanes: Lanes, clock: Clock
) -> Observation:
    """Probe every host and write the answers to the ledger, which is frozen where it knows less
    than they do.
    """
    known = _by_host(ledger.gpus())
    answers = lanes.run(
        {
            record.name: partial(
                _look, record, hosts.open(record), known.get(record.name, {}), ledger, clock
            )
            for record in records
        }
    )
    seen: dict[str, HostFacts] = {}
    failed: dict[str, VgpumgrError] = {}
    aside: list[str] = []
    for host, answer in answers.items():
        if isinstance(answer, tuple):
            seen[host], line = answer
            aside += [line] if line else []
        else:
            failed[host] = _as_error(host, answer)
            ledger.observation_failed(host, failed[host].message)
    notice(ledger, tuple(seen.values()))
    return Observation(seen, failed, tuple(aside))


def _look(
    before: HostRecord,
    host: Host,
    known: Mapping[str, GpuRecord],
    ledger: Ledger,
    clock: Clock,
) -> tuple[HostFacts, str]:
    """Probe one host and write its answer down, while other hosts are probed."""
    facts, slots = with_budgets(host.probe(), known)
    line = set_aside(ledger, before, facts)
    ledger.observe(facts, slots, clock.now())
    return facts, line


def with_budgets(
    facts: HostFacts, known: Mapping[str, GpuRecord]
) -> tuple[HostFacts, dict[str, int]]:
    """The facts with every GPU's slot sizes, and the slot count per device."""
    parents = {mdev.parent for mdev in facts.mdevs}
    unread = any(unknown.part.split(" ")[0] == "mdevs" for unknown in facts.unknown)
    gpus: list[GpuFacts] = []
    slots: dict[str, int] = {}
    for each in facts.gpus:
        before = known.get(each.device)
        functions = {each.device, *(vf.address for vf in each.vfs)}
        empty = not unread and not functions & parents
        seen = before.facts if before else None
        filled = frameworks.with_budget(_remembered(each, before), seen, empty=empty)
        gpus.append(filled)
        now = frameworks.slots(filled, empty=empty)
        slots[each.device] = max(now, before.units if before else 0)
    return replace(facts, gpus=tuple(gpus)), slots


def _remembered(gpu: GpuFacts, before: GpuRecord | None) -> GpuFacts:
    """NVML does not see a GPU on vfio-pci: what never changes is kept from when it did.

    Only where nothing contradicts it, so that a swapped card is not taken for the old one.
    """
    if before is None or gpu.module_id is not None:
        return gpu
    old = before.facts
    same = gpu.vendor_device == old.vendor_device and gpu.driver != old.driver
    kept = old.module_id if same or old.driver == gpu.driver == "vfio-pci" else None
    return replace(gpu, module_id=kept)


def _by_host(records: Iterable[GpuRecord]) -> dict[str, dict[str, GpuRecord]]:
    found: dict[str, dict[str, GpuRecord]] = {}
    for record in records:
        found.setdefault(record.host, {})[record.facts.device] = record
    return found


def _as_error(host: str, answer: object) -> VgpumgrError:
    if isinstance(answer, VgpumgrError):
        return answer
    return HostUnreachable(
        f"probing {host} failed", why=repr(answer), next=f"vgpumgr --debug host probe {host}"
    )
