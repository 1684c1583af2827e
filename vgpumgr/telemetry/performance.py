"""Why a VM may be slow: findings with evidence, from what host, GPUs and file say. Pure.

A finding is a *cause* where figures show it at work, *possible* where something limits the VM and
no figure shows that it bites, *ruled out* where a figure or the file says so, and *unknown* where
nothing tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.formats import counted, format_mib
from vgpumgr.model.licence import edition_of

BUSY, IDLE = 0.9, 0.7
"""Shares of a GPU from which it counts as busy, and up to which it does not."""
_FULL, _NEAR = 0.95, 0.9
_MIB = 1 << 20


class Verdict(StrEnum):
    """What is made of the evidence, the worst first."""

    CAUSE = "cause"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"
    RULED_OUT = "ruled-out"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceFinding:
    """One thing that can make a VM slow: the evidence in a sentence, and what to type."""

    code: str
    verdict: Verdict
    text: str
    next: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another vGPU on the same GPU: the VM's name (empty: another tenant's), and its share."""

    vm: str
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFacts:
    """A part of a GPU that the VM holds, and its GPU, by model and address, and by its id.

    Shares are of the GPU's time, from 0 to 1; what was not told is None. ``whole``: the guest has
    all of the GPU, and nothing of it is measured. ``timing`` is the scheduler's (``model.layout``),
    () where it is the driver's own. ``most`` is how many vGPUs of the profile a GPU
    takes, ``limiter`` what the VM's file says of the frame-rate limiter, ``throttled`` the reasons
    for which clocks are held down.
    """

    profile: str
    gpu: str
    gpu_id: str = ""
    health: str = "healthy"
    whole: bool = False
    licensed: bool | None = None
    limiter: bool | None = None
    frame_limit: int | None = None
    frames: int | None = None
    share: float | None = None
    gpu_share: float | None = None
    neighbours: tuple[Neighbour, ...] = ()
    scheduler: str | None = None
    timing: tuple[int, ...] | None = None
    most: int | None = None
    throttled: tuple[str, ...] | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    numa_node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimit:
    """What the VM's file allows a disk or a NIC at most, in words."""

    device: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceFacts:
    """A VM with its place. ``host_vcpus`` are those of all VMs that run there, on ``host_cpus``;
    ``numa_nodes`` is how many the host has, ``numa_node`` the VM's (None: it is bound to none).
    ``measured_s`` is the age of the figures; None: there are none of now, and ``silent`` says why
    the host tells none, where that is known.
    """

    vm: str
    host: str
    running: bool
    parts: tuple[PartFacts, ...] = ()
    vcpus: int = 0
    pinned: bool = False
    cpu_shares: int | None = None
    host_cpus: int | None = None
    host_vcpus: int = 0
    numa_node: int | None = None
    numa_nodes: int = 1
    disk_limits: tuple[DeviceLimit, ...] = ()
    nic_limits: tuple[DeviceLimit, ...] = ()
    measured_s: float | None = None
    silent: str = ""


def findings(facts: PerformanceFacts) -> tuple[PerformanceFinding, ...]:
    """All that can be said, the causes first."""
    found = list(_found(facts))
    order = list(Verdict)
    return tuple(sorted(found, key=lambda each: order.index(each.verdict)))


def _found(facts: PerformanceFacts) -> Iterator[PerformanceFinding]:
    if not facts.running:
        yield PerformanceFinding(
            code="off",
            verdict=Verdict.CAUSE,
            text=f"{facts.vm} does not run",
            next=f"vgpumgr vm start {facts.vm}",
        )
        return
    if facts.measured_s is None and any(not each.whole for each in facts.parts):
        why = f": {facts.silent}" if facts.silent else " lately"
        reads = "vgpumgr serve on this machine reads them; vgpumgr doctor"
        yield PerformanceFinding(
            code="figures",
            verdict=Verdict.UNKNOWN,
            text=f"{facts.host} has told no figures{why}",
            next=f"vgpumgr doctor {facts.host}" if facts.silent else reads,
        )
    for part in facts.parts:
        yield from _of_part(facts, part)
    yield from _of_cpus(facts)
    yield _of_memory(facts)
    yield from _of_limits("disk-limit", "disk", facts.disk_limits, facts)
    yield from _of_limits("network-limit", "NIC", facts.nic_limits, facts)


def _of_part(facts: PerformanceFacts, part: PartFacts) -> Iterator[PerformanceFinding]:
    if part.health != "healthy":
        yield PerformanceFinding(
            code="health",
            verdict=Verdict.POSSIBLE,
            text=f"{part.gpu} is {part.health}",
            next=f"vgpumgr gpu show {part.gpu_id}",
        )
    if part.whole:
        yield PerformanceFinding(
            code="whole-gpu",
            verdict=Verdict.UNKNOWN,
            text=f"the guest has all of {part.gpu}: its host measures nothing of it",
            next="nvidia-smi -q -d PERFORMANCE,UTILIZATION in the guest",
        )
    else:
        yield from filter(
            None,
            (
                _licence(part),
                _frame_rate(part),
                _neighbours(facts, part),
                _scheduler(part),
                _frame_buffer(part),
                _throttling(part),
            ),
        )
    yield from _numa(facts, part)


def _licence(part: PartFacts) -> PerformanceFinding | None:
    edition = edition_of(part.profile)
    if edition is None and part.licensed is None:
        return None
    if part.licensed is None:
        text = f"whether the guest has its licence ({edition}) is not told"
        return PerformanceFinding(
            code="licence", verdict=Verdict.UNKNOWN, text=text, next="nvidia-smi -q in the guest"
        )
    if part.licensed:
        text = "the guest has its licence"
        return PerformanceFinding(code="licence", verdict=Verdict.RULED_OUT, text=text)
    return PerformanceFinding(
        code="licence",
        verdict=Verdict.CAUSE,
        text=f"the guest has no licence ({edition or part.profile}): its driver holds it back, the "
        "longer the more",
        next="vgpumgr licence list; in the guest the clock, gridd.conf, and its client token",
    )


def _frame_rate(part: PartFacts) -> PerformanceFinding:
    def found(verdict: Verdict, text: str, next: str = "") -> PerformanceFinding:
        return PerformanceFinding(code="frame-rate-limiter", verdict=verdict, text=text, next=next)

    if part.scheduler not in {None, "best-effort"}:
        text = f"no frame-rate limiter works with the {part.scheduler} scheduler"
        return found(Verdict.RULED_OUT, text)
    if part.limiter is False or part.frame_limit == 0:
        return found(Verdict.RULED_OUT, "the frame-rate limiter is off")
    if part.frame_limit is None:
        return found(Verdict.UNKNOWN, "the frame-rate limit is not told")
    text = f"frames are limited to {part.frame_limit} a second"
    off = "frame_rate_limiter: false of the GPU part in its file, and a restart"
    if part.frames is None:
        return found(Verdict.POSSIBLE, f"{text}; how many it makes is not told", off)
    if part.frames >= _NEAR * part.frame_limit:
        return found(Verdict.CAUSE, f"{text}, and it makes {part.frames}", off)
    return found(Verdict.RULED_OUT, f"{text}, and it makes {part.frames}")


def _neighbours(facts: PerformanceFacts, part: PartFacts) -> PerformanceFinding:
    def found(verdict: Verdict, text: str, next: str = "") -> PerformanceFinding:
        return PerformanceFinding(code="gpu-busy", verdict=verdict, text=text, next=next)

    if part.gpu_share is None:
        return found(Verdict.UNKNOWN, f"how busy {part.gpu} is, is not told")
    text = f"{part.gpu} is {part.gpu_share:.0%} busy"
    if part.gpu_share <= IDLE:
        return found(Verdict.RULED_OUT, text)
    others = sorted(
        (each for each in part.neighbours if each.share), key=lambda each: -(each.share or 0.0)
    )
    theirs, own = sum(each.share or 0.0 for each in others), part.share or 0.0
    said = [f"{facts.vm} {own:.0%}", *(f"{each.vm or 'another tenant'} {each.share:.0%}"
            for each in others[:3])]  # fmt: skip
    text = f"{text}: {', '.join(said)}"
    verdict = Verdict.CAUSE if part.gpu_share >= BUSY else Verdict.POSSIBLE
    if theirs >= own:
        move = f"vgpumgr vm migrate {facts.vm} --to HOST; vgpumgr top"
        return found(verdict, text, move)
    return found(verdict, text, "a larger profile in its file; vgpumgr capacity")


def _scheduler(part: PartFacts) -> PerformanceFinding:
    def found(verdict: Verdict, text: str, next: str = "") -> PerformanceFinding:
        return PerformanceFinding(code="scheduler", verdict=verdict, text=text, next=next)

    running = 1 + len(part.neighbours)
    layout = "scheduler: best-effort in the layout of its host"
    match part.scheduler:
        case "best-effort":
            text = "the best-effort scheduler lets it use what others leave"
            return found(Verdict.RULED_OUT, text)
        case "equal-share":
            cap = 1 / running
            text = f"the equal-share scheduler gives it 1/{running} of {part.gpu}"
        case "fixed-share" if part.most:
            cap = 1 / part.most
            text = f"the fixed-share scheduler gives it 1/{part.most} of {part.gpu}, busy or not"
        case _:
            return found(Verdict.UNKNOWN, "the vGPU scheduler's policy is not told")
    text = f"{text}, {_dealt(part)}"
    if part.share is None:
        return found(Verdict.POSSIBLE, f"{text}; its share is not told", layout)
    if part.share >= _NEAR * cap and cap < 1:
        return found(Verdict.CAUSE, f"{text}, and it uses {part.share:.0%} of the GPU", layout)
    return found(Verdict.RULED_OUT, f"{text}, and it uses {part.share:.0%} of the GPU")


def _dealt(part: PartFacts) -> str:
    """How its driver deals out time, as far as that is told."""
    match part.timing:
        case (slice_us,):
            return f"in time slices of {slice_us / 1000:g} ms"
        case (frequency, averaging):
            return f"at {frequency} Hz, averaging {averaging}"
        case ():
            return f"in time slices of {_slice_ms(part.most)} ms, the driver's own"
        case _:
            return f"in time slices of {_slice_ms(part.most)} ms where none are declared"


def _slice_ms(most: int | None) -> str:
    """By the driver's default: 2 ms for GPUs with at most 8 vGPUs, else 1 ms (NVIDIA's vGPU user
    guide, scheduler time slice).
    """
    return "1 or 2" if most is None else "2" if most <= 8 else "1"


def _frame_buffer(part: PartFacts) -> PerformanceFinding:
    used, total = part.memory_used, part.memory_total
    if used is None or not total:
        text = "how much of its frame buffer is in use is not told"
        return PerformanceFinding(code="frame-buffer", verdict=Verdict.UNKNOWN, text=text)
    text = f"{format_mib(used // _MIB)} of {format_mib(total // _MIB)} frame buffer are in use"
    if used >= _FULL * total:
        more = "a profile with more memory in its file; vgpumgr capacity"
        return PerformanceFinding(code="frame-buffer", verdict=Verdict.CAUSE, text=text, next=more)
    return PerformanceFinding(code="frame-buffer", verdict=Verdict.RULED_OUT, text=text)


_REASONS = {
    "power": "it is at its power limit",
    "sync_boost": "it waits for the slowest GPU of its group",
    "sw_thermal": "it is hot",
    "hw_thermal": "it is so hot that its hardware slows it",
    "power_brake": "its power supply has asked for less",
}


def _throttling(part: PartFacts) -> PerformanceFinding:
    if part.throttled is None:
        text = f"whether clocks of {part.gpu} are held down is not told"
        return PerformanceFinding(code="throttling", verdict=Verdict.UNKNOWN, text=text)
    if not part.throttled:
        text = f"clocks of {part.gpu} are not held down"
        return PerformanceFinding(code="throttling", verdict=Verdict.RULED_OUT, text=text)
    why = ", ".join(_REASONS.get(each, each.replace("_", " ")) for each in part.throttled)
    return PerformanceFinding(
        code="throttling",
        verdict=Verdict.CAUSE,
        text=f"clocks of {part.gpu} are held down: {why}",
        next=f"vgpumgr gpu show {part.gpu_id}",
    )


def _numa(facts: PerformanceFacts, part: PartFacts) -> Iterator[PerformanceFinding]:
    def found(verdict: Verdict, text: str, next: str = "") -> PerformanceFinding:
        return PerformanceFinding(code="numa", verdict=verdict, text=text, next=next)

    if facts.numa_nodes <= 1:
        return
    if part.numa_node is None:
        yield found(Verdict.UNKNOWN, f"the NUMA node of {part.gpu} is not told")
    elif facts.numa_node is None:
        text = f"it is bound to no NUMA node, {part.gpu} is on node {part.numa_node}"
        yield found(Verdict.POSSIBLE, text, "numa: require in its file, and a restart")
    elif facts.numa_node != part.numa_node:
        text = f"it is on NUMA node {facts.numa_node}, {part.gpu} on node {part.numa_node}"
        yield found(Verdict.CAUSE, text, "numa: require in its file, and a restart")
    else:
        yield found(Verdict.RULED_OUT, f"it and {part.gpu} are on NUMA node {part.numa_node}")


def _of_cpus(facts: PerformanceFacts) -> Iterator[PerformanceFinding]:
    def found(code: str, verdict: Verdict, text: str, next: str = "") -> PerformanceFinding:
        return PerformanceFinding(code=code, verdict=verdict, text=text, next=next)

    if facts.pinned:
        yield found("cpu-overcommit", Verdict.RULED_OUT, "its vCPUs are pinned to CPUs of its own")
        return
    in_guest = "top in the guest: the column st is the time that it waited for a CPU"
    if not facts.host_cpus:
        yield found("cpu-overcommit", Verdict.UNKNOWN, "the host's CPUs are not told", in_guest)
        return
    text = f"{facts.host_vcpus} vCPUs of running VMs on {counted(facts.host_cpus, 'CPU')}"
    if facts.host_vcpus <= facts.host_cpus:
        yield found("cpu-overcommit", Verdict.RULED_OUT, text)
    else:
        fewer = "pin_cpus: true in its file, or cpu_overcommit of the host"
        yield found("cpu-overcommit", Verdict.POSSIBLE, text, fewer)
        steal = "hosts do not tell how long it waited for a CPU (steal)"
        yield found("cpu-steal", Verdict.UNKNOWN, steal, in_guest)
    if facts.cpu_shares is not None and facts.host_vcpus > facts.host_cpus:
        text = f"its weight among VMs that want more CPU is {facts.cpu_shares}"
        yield found("cpu-shares", Verdict.POSSIBLE, text, "cpu_shares in its file")


def _of_memory(facts: PerformanceFacts) -> PerformanceFinding:
    if facts.parts:
        text = "its memory is pinned, as it has a device: none of it is ballooned or swapped"
        return PerformanceFinding(code="ballooning", verdict=Verdict.RULED_OUT, text=text)
    text = "whether its host takes memory back from it is not told"
    next = f"virsh dommemstat {facts.vm} on {facts.host}"
    return PerformanceFinding(code="ballooning", verdict=Verdict.UNKNOWN, text=text, next=next)


def _of_limits(
    code: str, what: str, limits: Sequence[DeviceLimit], facts: PerformanceFacts
) -> Iterator[PerformanceFinding]:
    if not limits:
        text = f"its file limits no {what}"
        yield PerformanceFinding(code=code, verdict=Verdict.RULED_OUT, text=text)
    for each in limits:
        yield PerformanceFinding(
            code=code,
            verdict=Verdict.POSSIBLE,
            text=f"{each.device} is limited to {each.text}; what it uses is not told",
            next=f"vgpumgr vm xml {facts.vm}; the limit is in its file",
        )


def summary(found: Iterable[PerformanceFinding]) -> str:
    """``2 causes, 1 possible, 3 unknown``."""
    counts = dict.fromkeys(Verdict, 0)
    for one in found:
        counts[one.verdict] += 1
    words = [counted(counts[Verdict.CAUSE], "cause")] if counts[Verdict.CAUSE] else ["no cause"]
    words += [f"{counts[Verdict.POSSIBLE]} possible"] if counts[Verdict.POSSIBLE] else []
    words += [f"{counts[Verdict.UNKNOWN]} unknown"] if counts[Verdict.UNKNOWN] else []
    return ", ".join(words)
