"""Probes of hosts side by side, kept in the ledger; candidate hosts that hang are left behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from vgpumgr import gpu as frameworks
from vgpumgr.engine.inventory.ledger_view import named_gpus
from vgpumgr.engine.inventory.rollback_detection import freeze_if_older, set_aside
from vgpumgr.engine.workers.thread_workers import WaitForAll, WaitForCandidates, abandonment_error
from vgpumgr.model.errors import HostUnreachable, VgpumgrError
from vgpumgr.model.gpu import GpuFacts, GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ports import (
    WAIT_LIMITS,
    Clock,
    Host,
    HostExecutor,
    Hosts,
    WaitLimits,
    WaitPolicy,
)


def learned_profiles(ledger: Ledger) -> frozenset[str]:
    """Every name that a GPU of the fleet taught: a user may write it."""
    return frozenset[str]().union(
        *(frameworks.learned_profiles(gpu.facts) for gpu in ledger.gpus())
    )


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a round of probes: facts per host that answered, an error per host that did
    not, and a line per host that was set aside by it.

    ``silent`` are hosts that were waited for no longer, with the seconds until then: nothing is
    known of them. ``kept`` are the answers by host.
    """

    facts: Mapping[str, HostFacts] = field(default_factory=dict)
    failed: Mapping[str, VgpumgrError] = field(default_factory=dict)
    set_aside: tuple[str, ...] = ()
    silent: Mapping[str, float] = field(default_factory=dict)
    kept: Mapping[str, KeptAnswer] = field(default_factory=dict)


ProbeAnswer = HostFacts | VgpumgrError
"""What came of asking a host."""
NO_ANSWERS: Mapping[str, ProbeAnswer] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A host's answer as it told it (the identical object where it said that nothing has changed),
    and as it was kept, at that Unix time; a ``line`` where the host was set aside by it.
    """

    told: HostFacts
    facts: HostFacts
    at: float
    line: str = ""


def observe(
    records: Iterable[HostRecord],
    hosts: Hosts,
    ledger: Ledger,
    lanes: HostExecutor,
    clock: Clock,
    waits: WaitLimits = WAIT_LIMITS,
    answers: Mapping[str, ProbeAnswer] = NO_ANSWERS,
) -> Observation:
    """Probe every host and write the answers to the ledger, which is frozen where it knows less
    than they do. Hosts of ``answers`` were probed just now.
    """
    with closing(ProbeRound(records, hosts, ledger, lanes, clock, waits, answers)) as round_:
        return round_.finish()


class ProbeRound:
    """A round of probes under way; :meth:`close` ends it."""

    def __init__(
        self,
        records: Iterable[HostRecord],
        hosts: Hosts,
        ledger: Ledger,
        lanes: HostExecutor,
        clock: Clock,
        waits: WaitLimits,
        answers: Mapping[str, ProbeAnswer] = NO_ANSWERS,
    ) -> None:
        self._before = {record.name: record for record in records}
        self._ledger = ledger
        self._clock = clock
        self._waits = waits
        known = _known_gpus(ledger, self._before.keys())
        self._told: set[str] = set()
        self._looks = lanes.look(
            {
                name: partial(_probe, hosts.open(record), known.get(name, {}), answers.get(name))
                for name, record in self._before.items()
            },
            self._keep,
        )

    def wait(self, waiting: WaitPolicy) -> Observation:
        """The observation when no host is waited for any more. A host that was silent so far is
        recorded as not reached; it may still answer as long as the round lasts.
        """
        return self._observation(self._looks.wait(waiting))

    def finish(self) -> Observation:
        """The observation when all hosts have answered, or no more answers are to be expected."""
        silent = self._looks.wait(WaitForAll(self._waits.look_s))
        late = {host: abandonment_error(host, seconds) for host, seconds in silent.items()}
        return self._observation({}, late)

    def close(self) -> None:
        """Drop later answers."""
        self._looks.leave()

    def _keep(self, host: str, probed: Probed) -> KeptAnswer:
        told, facts, slots = probed
        line = set_aside(self._ledger, self._before[host], facts)
        at = self._clock.now()
        self._ledger.observe(facts, slots, at)
        return KeptAnswer(told, facts, at, line)

    def _observation(
        self, silent: Mapping[str, float], late: Mapping[str, VgpumgrError] | None = None
    ) -> Observation:
        answers = {host: self._looks.answers.get(host) for host in self._before}
        kept = {host: each for host, each in answers.items() if isinstance(each, KeptAnswer)}
        errors = {host: each for host, each in answers.items() if isinstance(each, Exception)}
        failed = {host: _as_error(host, each) for host, each in errors.items()} | dict(late or {})
        for host, error in failed.items():
            self._tell(host, error.message)
        for host, seconds in silent.items():
            if not self._before[host].last_error:
                self._ledger.observation_failed(host, silence(seconds))
        seen = {host: each.facts for host, each in kept.items()}
        # A cordoned host is set aside: what it says is believed of itself alone.
        freeze_if_older(self._ledger, [f for h, f in seen.items() if not self._before[h].cordoned])
        set_aside_ = tuple(each.line for each in kept.values() if each.line)
        return Observation(seen, failed, set_aside_, silent, kept)

    def _tell(self, host: str, error: str) -> None:
        if host not in self._told:
            self._told.add(host)
            self._ledger.observation_failed(host, error)


def silence(seconds: float) -> str:
    """The error of a host that was waited for no longer."""
    return f"did not answer within {seconds:.1f} s"


# As the host told them, with budgets, and the slot count per device.
Probed = tuple[HostFacts, HostFacts, dict[str, int]]


def _probe(host: Host, known: Mapping[str, GpuRecord], answer: ProbeAnswer | None) -> Probed:
    told = host.probe() if answer is None else answer
    if isinstance(told, VgpumgrError):
        raise told
    return told, *with_budgets(told, known)


def _known_gpus(ledger: Ledger, hosts: Collection[str]) -> dict[str, dict[str, GpuRecord]]:
    """By host and device."""
    found: dict[str, dict[str, GpuRecord]] = {}
    for record in named_gpus(ledger, hosts):
        found.setdefault(record.host, {})[record.facts.device] = record
    return found


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


def _as_error(host: str, answer: Exception) -> VgpumgrError:
    if isinstance(answer, VgpumgrError):
        return answer
    return HostUnreachable(
        f"probing {host} failed", why=repr(answer), next=f"vgpumgr --debug host probe {host}"
    )


class CandidateProbes:
    """Wait, and where that was not enough :meth:`insist`; both keep what the hosts show, and give
    a line for each that could not be read, was left out, or was set aside.

    ``before`` are the errors of the hosts' last looks.
    """

    def __init__(
        self, round_: ProbeRound, waiting: WaitForCandidates, before: Mapping[str, str]
    ) -> None:
        self._round = round_
        self._waiting = waiting
        self._before = before
        self.left_out: frozenset[str] = frozenset()

    def wait(self) -> tuple[str, ...]:
        """The observation after as long as ``waiting`` says. ``left_out`` names the hosts without
        an answer.
        """
        seen = self._round.wait(self._waiting)
        self.left_out = frozenset(seen.silent)
        return (*lines(seen), *(self._left_out(host, s) for host, s in seen.silent.items()))

    def insist(self) -> tuple[str, ...]:
        """Until all have answered, or their own deadlines have ended it."""
        self.left_out = frozenset()
        return lines(self._round.finish())

    def _left_out(self, host: str, seconds: float) -> str:
        last = self._before[host]
        again = f"; its last probe failed: {last}" if last else ""
        return f"host {host} {silence(seconds)} and was not considered{again}"


def lines(seen: Observation) -> tuple[str, ...]:
    """Hosts that could not be read, or were set aside."""
    failed = (f"{host}: {error.message}" for host, error in seen.failed.items())
    return (*failed, *seen.set_aside)
